package benchcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch"
	"github.com/ibrun/ibrun/internal/benchreference"
	"github.com/ibrun/ibrun/internal/needtest"
)

// asIbrun is a variable that makes this test binary act as ibrun.
const asIbrun = "BENCHCMD_TEST_AS_IBRUN"

func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); {
	case strings.HasPrefix(name, "ib_") || name == fakeSide:
		os.Exit(runFakeProgram(name, os.Args[1:]))
	case name == filepath.Base(referenceProgram):
		os.Exit(benchreference.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	if os.Getenv(asIbrun) != "" {
		os.Exit(ibrun(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// ibrun acts as the program ibrun with these arguments.
func ibrun(words []string) int {
	s := launch.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	switch words[0] {
	case "agent":
		return launch.Agent(os.Stderr)
	case "watch":
		return launch.Watch(os.Stderr)
	case "bench":
		return Main(words[1:], os.Environ(), s, s.Out, s.Err, ibrun)
	}
	o, err := cli.Parse(words, os.LookupEnv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	return launch.Run(o, words, os.Environ(), s)
}

// start runs `ibrun bench words...` as a process of its own.
func start(t *testing.T, words string) (stdout string, err error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{"bench"}, strings.Fields(words)...)...)
	cmd.Env = append(os.Environ(), asIbrun+"=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Logf("%s: %v\n%s", words, err, stderr.String())
	}
	return string(out), err
}

// startLines is start for a measurement that prints n lines in JSON. It returns these lines.
func startLines(t *testing.T, words string, n int) []line {
	t.Helper()
	out, err := start(t, words)
	if err != nil {
		t.Fatal(err)
	}
	lines := parseLines(t, out)
	if len(lines) != n {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), n, out)
	}
	return lines
}

// TestJob measures with real ranks.
func TestJob(t *testing.T) {
	out, err := start(t, "allreduce -n 3 --sizes 4-1K,64K --iterations 20 --validate --percentiles --json")
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for l := range strings.Lines(out) {
		var r bench.Result
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		if r.Op != "allreduce" || r.Ranks != 3 || r.Iterations != 20 || !r.Validated || r.Wrong != 0 || r.Percentiles == nil {
			t.Errorf("%+v", r)
		}
		sizes = append(sizes, r.Size)
	}
	if want := append(bench.Ladder(4, 1024), 65536); !slices.Equal(sizes, want) {
		t.Errorf("sizes %v, want %v", sizes, want)
	}
}

// TestJobDraws: table and plot come from rank 0, once.
func TestJobDraws(t *testing.T) {
	out, err := start(t, "latency --sizes 8,16,32 --iterations 10 --plot --width 60")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# latency: ", "\n        16 B ", "us over message size"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%q is there %d times:\n%s", want, strings.Count(out, want), out)
		}
	}
}

// linkReference returns a link to this test binary, which acts as the reference program under its
// name.
func linkReference(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	link := filepath.Join(t.TempDir(), filepath.Base(referenceProgram))
	if err == nil {
		err = os.Symlink(exe, link)
	}
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// TestSockets compares real ranks with two processes of the reference program.
func TestSockets(t *testing.T) {
	lines := startLines(t, "versus --transport tcp --peer sockets --op latency,bw --size 8,4K --rounds 7 --time 100us --json "+
		"--reference "+linkReference(t), 4)
	for i, l := range lines {
		if l.Op != []string{"latency", "bw"}[i/2] || l.Size != []int{8, 4096}[i%2] || l.PeerName != "sockets" || l.Peer <= 0 ||
			l.Ours <= 0 {
			t.Errorf("%+v", l)
		}
	}
}

// TestPeerProgram builds the C program with every MPI that is installed and runs a loop of each kind of figure.
func TestPeerProgram(t *testing.T) {
	source, err := find(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range mpiImplementations() {
		commands, ok := m.find(t.Context(), "")
		if !ok {
			continue
		}
		found++
		p, err := commands.build(context.Background(), source, t.TempDir(), os.Environ(), "shm")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"latency", "mbw_mr", "barrier", "reduce_scatter", "init"} {
			op, err := lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			sizes := []int{8, 4096}
			if !op.Takes(8) || op.Name == opInit.Name {
				sizes = []int{0}
			}
			points, err := p.run(context.Background(), job{op: op, ranks: 2, sizes: sizes, time: 100 * time.Microsecond})
			if err != nil || len(points) != len(sizes) {
				t.Errorf("%s %s: points %v, %v", m.name, name, points, err)
			}
		}
	}
	if found == 0 {
		needtest.Missing(t, "another MPI to build the C program with: %s", installCommand(mpiImplementations()))
	}
}

// TestGoroutines: each number of goroutines has a line for each peer, over each transport.
func TestGoroutines(t *testing.T) {
	out, err := start(t, "goroutines --json --rounds 1 --time 1us")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for text := range strings.Lines(out) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.Op != goroutinesOp || l.Unit != bench.TripsPerSecond ||
			l.Ratio < 0.99*l.Ours/l.Peer || l.Ratio > 1.01*l.Ours/l.Peer {
			t.Fatalf("%q: %+v, %v", text, l, err)
		}
		got = append(got, fmt.Sprint(l.Transport, l.Goroutines, " ", l.PeerName))
	}
	want := []string{"tcp1 net/rpc", "tcp8 1 goroutine", "tcp8 net/rpc", "tcp8 net/rpc each", "tcp128 1 goroutine", "tcp128 net/rpc",
		"tcp128 net/rpc each", "shm1 1 goroutine", "shm8 1 goroutine", "shm128 1 goroutine"}
	if !slices.Equal(got, want) {
		t.Errorf("lines of %q, want %q", got, want)
	}
	for _, words := range []string{"goroutines --rounds 0", "goroutines --time 0s", "goroutines more", "goroutines --transport none",
		"goroutines --transport auto"} {
		if _, err := start(t, words); err == nil {
			t.Errorf("ibrun bench %s: no error", words)
		}
	}
}

// TestPaths: over each transport each size has a line for each operation, with written buffers and without. The protocols are
// those that can carry such a message.
func TestPaths(t *testing.T) {
	out, err := start(t, "paths --json --rounds 4 --time 1us --settle 1us --sizes 8,64K")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for text := range strings.Lines(out) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.Peer != l.Protocols[l.PeerName] || l.Low <= 0 || l.High < l.Low ||
			!slices.Contains([]string{"eager", "parts", "read", "shared"}, l.Chosen) || l.Size == 8 && l.Chosen != "eager" {
			t.Fatalf("%q: %+v, %v", text, l, err)
		}
		got = append(got, fmt.Sprint(l.Transport, l.Op, l.Written, l.Size, slices.Sorted(maps.Keys(l.Protocols))))
	}
	protocols := map[string][]string{"shm8": {"copied", "eager", "read"}, "shm65536": {"copied", "parts", "read", "shared"},
		"tcp8": {"copied", "eager", "read"}, "tcp65536": {"copied", "eager", "read"}}
	for _, transport := range []string{"shm", "tcp"} {
		for _, op := range []string{"latency", "bw"} {
			for _, written := range []bool{false, true} {
				for _, size := range []int{8, 65536} {
					want = append(want, fmt.Sprint(transport, op, written, size, protocols[fmt.Sprint(transport, size)]))
				}
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines of\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, words := range []string{"--rounds 3", "--time 0s", "more", "--transport auto", "--op barrier", "--sizes 0",
		"--settle -1s", "--buffers new"} {
		out, err := start(t, "paths "+words)
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
			t.Errorf("ibrun bench paths %s: %v\n%s", words, err, out)
		}
	}
}

// TestPathSettings: after the lines about protocols each size at which a setting matters has a line that compares the settings of
// the transport.
func TestPathSettings(t *testing.T) {
	out, err := start(t, "paths --json --rounds 4 --time 1us --settle 1us --sizes 8,256K --transport tcp --op bw --buffers written "+
		"--settings")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for text := range strings.Lines(out) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if l.Settings == nil {
			continue
		}
		got = append(got, fmt.Sprint(l.Transport, l.Op, l.Written, l.Size, l.PeerName))
		if l.Peer != l.Settings[l.PeerName] || l.Ours <= 0 || l.Low <= 0 || l.High < l.Low || l.Protocols != nil {
			t.Errorf("%s", text)
		}
	}
	if want := []string{"tcpbwtrue 262144IBRUN_TCP_PUSH=1"}; !slices.Equal(got, want) {
		t.Errorf("lines of %q, want %q", got, want)
	}
}

// The ibrun below prints to the streams themselves: it may draw on a terminal, and what it prints is not lost if this process
// ends before it.
func TestOutputBelow(t *testing.T) {
	var files [2]*os.File
	for i := range files {
		f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	var out, errs strings.Builder
	code := Main(strings.Fields("goroutines --rounds 1 --time 1us --transport shm"), append(os.Environ(), asIbrun+"=1"),
		launch.Streams{Out: files[0], Err: files[1]}, &out, &errs, nil)
	text, err := os.ReadFile(files[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	if code != exitOK || len(text) == 0 || out.Len()+errs.Len() > 0 {
		t.Errorf("code %d; the ibrun below has printed %q, and this one %q and %q", code, text, &out, &errs)
	}
}

// TestHints: every hint has a line for each size, and the hint of the line is the one that was in force.
func TestHints(t *testing.T) {
	out, err := start(t, "hints --json --rounds 1 --time 1us")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for text := range strings.Lines(out) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.Ours <= 0 || l.Peer <= 0 || l.Ratio <= 0 || l.PeerName != "off" {
			t.Fatalf("%q: %+v, %v", text, l, err)
		}
		got = append(got, fmt.Sprint(l.Op, l.Size, l.Hint))
	}
	for _, r := range hintMeasurements() {
		for _, size := range r.sizes {
			want = append(want, fmt.Sprint(r.op, size, r.hint))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines of %q, want %q", got, want)
	}
	for _, words := range []string{"hints --rounds 0", "hints --time 0s", "hints more"} {
		if _, err := start(t, words); err == nil {
			t.Errorf("ibrun bench %s: no error", words)
		}
	}
}

// TestTuneRatio: each size has a line that compares the chosen algorithm with the fastest one, and has the time of each, also of
// immediate collectives.
func TestTuneRatio(t *testing.T) {
	out, err := start(t, "tune bcast,ibcast --sizes 8,1M --rounds 4 --time 1ms --transport shm --json")
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]bool{}
	for text := range strings.Lines(out) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		points[fmt.Sprint(l.Op, l.Ranks, l.Size)] = true
		_, measured := l.Algorithms[l.Chosen]
		_, fastest := l.Algorithms[l.PeerName]
		if !measured || !fastest || l.Ours <= 0 || l.Peer <= 0 || l.Low <= 0 || l.Low > l.Ratio || l.High < l.Ratio {
			t.Errorf("%s", text)
		}
	}
	if len(points) != 4 {
		t.Errorf("%d points: %s", len(points), out)
	}
	out, err = start(t, "tune barrier --rounds 4 --time 1ms --transport shm")
	if err != nil || !regexp.MustCompile(`barrier +2 +0 B .*\] to (shared memory|dissemination) +shared memory  `).MatchString(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTune writes a table with the fastest algorithm of a barrier: of those within a node, blocking and immediate, and of those
// between hosts.
func TestTune(t *testing.T) {
	for words, want := range map[string]struct {
		algorithms []string
		nodes      bool
	}{
		"barrier":                     {[]string{"shared memory", "dissemination"}, false},
		"ibarrier":                    {[]string{"shared memory", "messages"}, false},
		"barrier --hosts localhost:2": {[]string{"two-level", "dissemination"}, true},
	} {
		path := filepath.Join(t.TempDir(), "table.json")
		out, err := start(t, "tune "+words+" --rounds 1 --time 1ms --transport shm,tcp --output "+path)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range want.algorithms {
			if !strings.Contains(out, a) {
				t.Errorf("%q: %s was not measured:\n%s", words, a, out)
			}
		}
		name, _, _ := strings.Cut(words, " ")
		var table struct {
			Rules []struct {
				Collective string `json:"collective"`
				Algorithm  string `json:"algorithm"`
				Nodes      bool   `json:"several_nodes"`
			} `json:"rules"`
		}
		b, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(b, &table)
		}
		if err != nil || len(table.Rules) != 1 || !slices.Contains(want.algorithms, table.Rules[0].Algorithm) ||
			table.Rules[0].Collective != name || table.Rules[0].Nodes != want.nodes {
			t.Errorf("%q: %v, %s", words, err, b)
		}
	}
}

// TestSimulateCompare: real runs of each algorithm are compared with simulated ones.
func TestSimulateCompare(t *testing.T) {
	out, err := start(t, "simulate barrier,allreduce --compare 2,3 --sizes 8 --transport shm --time 1ms --json")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for l := range strings.Lines(out) {
		var x comparedRun
		if err := json.Unmarshal([]byte(l), &x); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		if x.Measured <= 0 || x.Simulated <= 0 || x.Ratio != x.Simulated/x.Measured {
			t.Errorf("%+v", x)
		}
		seen[x.Collective] += x.Ranks
	}
	if seen["barrier"] != 2+3 || seen["allreduce"]%(2+3) != 0 || seen["allreduce"] == 0 {
		t.Errorf("%v\n%s", seen, out)
	}
}
