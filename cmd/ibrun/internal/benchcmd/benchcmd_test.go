package benchcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

// callResult is the result of one call of `ibrun bench`.
type callResult struct {
	code           int
	stdout, stderr string
	launched       []string
}

// runCommand runs `ibrun bench args...` as the ibrun program self.
func runCommand(t *testing.T, self string, env []string, args ...string) callResult {
	t.Helper()
	var out callResult
	var stdout, stderr bytes.Buffer
	c := command{
		args: args, env: append(append(os.Environ(), "IBRUN_BENCH_SOURCES="+sources), env...),
		stdout: &stdout, stderr: &stderr, width: 99, self: self,
		ibrun: func(words []string) int {
			out.launched = words
			return 7
		},
	}
	out.code = c.run(context.Background())
	out.stdout, out.stderr = stdout.String(), stderr.String()
	return out
}

// script writes an executable shell script.
func script(t *testing.T, path, body string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// fakeIbrun prints 4 as every figure, in JSON, for each size. Its arguments are
// -n RANKS -- SELF bench OP --json --sizes LIST --time T.
const fakeIbrun = `
op=$6 ranks=$2; [ "$op" = init ] && exit 0
IFS=,
for s in $9; do echo "{\"op\":\"$op\",\"ranks\":$ranks,\"size\":$s,\"value\":4}"; done
`

// sources is the folder with the sources of ibrun, for tests without a go command in the PATH.
const sources = "../../../.."

// fakeCC creates an empty program if there is a source, and fakeRun prints a constant figure for
// each size.
const (
	fakeCC  = `while [ "$1" != -o ]; do shift; done; [ -s "$3" ] && echo > "$2"`
	fakeRun = `
[ "$1" = --version ] && { echo "mpirun (Fake MPI) 4.5.6"; exit 0; }
while case "$1" in *peer-*) false;; esac; do shift; done
[ "$2" = init ] && exit 0
echo "$@" >> "$FAKE_LOG"
IFS=,
for s in $3; do echo "point $s 10 %s"; done
`
)

// fakes creates the named peers with the figures that they print in a directory, makes it the PATH, and returns an ibrun program.
func fakes(t *testing.T, figures map[string]string) (self, log string) {
	t.Helper()
	dir := t.TempDir()
	for name, figure := range figures {
		script(t, filepath.Join(dir, "mpicc."+name), fakeCC)
		script(t, filepath.Join(dir, "mpirun."+name), strings.ReplaceAll(fakeRun, "%s", figure))
	}
	log = filepath.Join(dir, "log")
	t.Setenv("PATH", dir)
	t.Setenv("FAKE_LOG", log)
	return script(t, filepath.Join(dir, "ibrun"), fakeIbrun), log
}

func parseLines(t *testing.T, text string) (lines []line) {
	t.Helper()
	for l := range strings.Lines(text) {
		d := json.NewDecoder(strings.NewReader(l))
		d.DisallowUnknownFields()
		var one line
		if err := d.Decode(&one); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		var fields map[string]any
		want := 8
		if one.PeerVersion != "" { // versus
			want = 10
		}
		if err := json.Unmarshal([]byte(l), &fields); err != nil || len(fields) != want {
			t.Fatalf("%q has %d fields, want %d: %v", l, len(fields), want, err)
		}
		lines = append(lines, one)
	}
	return lines
}

func TestVersusJSON(t *testing.T) {
	self, log := fakes(t, map[string]string{"openmpi": "5", "mpich": "2"})
	out := runCommand(t, self, nil, "versus", "--json", "--op", "latency,bw,allreduce", "--sizes", "8-16,64K", "--time", "20ms",
		"--rounds", "7")
	if out.code != 0 {
		t.Fatalf("exit %d\n%s", out.code, out.stderr)
	}
	var want []line
	for _, op := range []string{"latency", "bw", "allreduce"} {
		ranks, unit := []int{2}, bench.Microseconds
		if op == "allreduce" {
			ranks = []int{2, 4, 8}
		}
		ratios := []float64{1.25, 0.5}
		if op == "bw" {
			unit, ratios = bench.MegabytesPerSec, []float64{0.8, 2}
		}
		for _, n := range ranks {
			for _, size := range []int{8, 16, 65536} {
				l := line{Op: op, Ranks: n, Size: size, Unit: unit, Ours: 4, Peer: 5, PeerName: "openmpi", Ratio: ratios[0],
					PeerVersion: "4.5.6", Transport: "shm"}
				want = append(want, l)
				l.Peer, l.PeerName, l.Ratio = 2, "mpich", ratios[1]
				want = append(want, l)
			}
		}
	}
	if got := parseLines(t, out.stdout); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	for _, words := range []string{"machine: ", "openmpi 4.5.6, built by mpicc.openmpi -O3 -o ", "--oversubscribe --bind-to none",
		"ratio to the better peer", "latency, 2 ranks", "0.50 geometric mean"} {
		if !strings.Contains(out.stderr, words) {
			t.Errorf("stderr lacks %q:\n%s", words, out.stderr)
		}
	}
	runs, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	// 7 rounds of 5 launches of two peers, each with sizes, milliseconds, window, iterations and warm-up. The first round has the
	// requested time. The others have less if it took long.
	if n := len(regexp.MustCompile(`(?m) 8,16,65536 \d+ 64 0 0$`).FindAllString(string(runs), -1)); n != 7*5*2 {
		t.Errorf("%d launches of peers, want 70:\n%s", n, runs)
	}
}

func TestVersusTable(t *testing.T) {
	self, _ := fakes(t, map[string]string{"mpich": "6"})
	out := runCommand(t, self, nil, "versus", "--op", "barrier,init", "--ranks", "4")
	if out.code != 0 {
		t.Fatalf("exit %d\n%s", out.code, out.stderr)
	}
	rows := strings.Split(strings.TrimSpace(out.stdout), "\n")
	barrier := []string{"barrier", "4", "0", "B", "us", "4.000", "6.000", "mpich", "1.50"}
	if len(rows) != 3 || !slices.Equal(strings.Fields(rows[1]), barrier) ||
		!strings.HasPrefix(rows[2], "init ") || !strings.Contains(rows[2], " ms ") {
		t.Errorf("table is\n%s", out.stdout)
	}
	if !strings.Contains(out.stderr, "openmpi is left out: it is not installed (apt-get install openmpi-bin libopenmpi-dev)") {
		t.Errorf("stderr does not say that Open MPI is missing:\n%s", out.stderr)
	}
}

// TestVersusPeerFails: the other peer is still measured, the error is printed, and the exit code is 1.
func TestVersusPeerFails(t *testing.T) {
	for name, body := range map[string]string{
		"dies":    `[ "$1" = --version ] && exit 0; echo "cannot allocate" >&2; exit 9`,
		"babbles": `[ "$1" = --version ] && exit 0; echo hello`,
		"forgets": `exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			self, _ := fakes(t, map[string]string{"openmpi": "5", "mpich": "2"})
			script(t, filepath.Join(filepath.Dir(self), "mpirun.openmpi"), body)
			out := runCommand(t, self, nil, "versus", "--json", "--op", "latency", "--size", "8")
			lines := parseLines(t, out.stdout)
			if out.code != exitFailed || len(lines) != 1 || lines[0].PeerName != "mpich" {
				t.Errorf("exit %d, points %v\n%s", out.code, lines, out.stderr)
			}
			if !strings.Contains(out.stderr, "latency, 2 ranks: mpirun.openmpi --bind-to core -n 2 ") {
				t.Errorf("the failing command is not printed:\n%s", out.stderr)
			}
		})
	}
}

// TestVersusInterrupted: Ctrl-C while a peer runs ends the peer, and leaves no directory behind.
func TestVersusInterrupted(t *testing.T) {
	self, _ := fakes(t, map[string]string{"openmpi": "5"})
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	sleeper := filepath.Join(filepath.Dir(self), "mpirun.openmpi")
	script(t, sleeper, `[ "$1" = --version ] || { kill -INT $PPID; exec /bin/sleep 1000; }`)
	out := runCommand(t, self, nil, "versus", "--op", "latency", "--size", "8")
	if out.code != exitInterrupted || out.stdout != "" {
		t.Errorf("exit %d, stdout %q, stderr %q", out.code, out.stdout, out.stderr)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestVersusWithoutPeers(t *testing.T) {
	self, _ := fakes(t, nil)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"versus"}, "install one: apt-get install openmpi-bin libopenmpi-dev mpich libmpich-dev"},
		{[]string{"versus", "--peer", "mpich"}, "install one: apt-get install mpich libmpich-dev"},
	} {
		out := runCommand(t, self, nil, c.args...)
		if out.code != exitFailed || out.stdout != "" || !strings.Contains(out.stderr, c.want) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", c.args, out.code, out.stdout, out.stderr)
		}
	}
	self, _ = fakes(t, map[string]string{"openmpi": "5"})
	if out := runCommand(t, self, nil, "versus", "--peer", "openmpi,mpich"); out.code != exitFailed ||
		!strings.Contains(out.stderr, "mpich is not installed") {
		t.Errorf("a named peer is missing: exit %d, %q", out.code, out.stderr)
	}
}

func TestWrongUse(t *testing.T) {
	for _, c := range []struct {
		words string
		want  string
	}{
		{"latencyy", "did you mean latency?"},
		{"latency --sises 8", "did you mean sizes?"},
		{"latency 8", `unexpected word "8"`},
		{"latency --sizes 8X", `invalid size "8X"`},
		{"latency -n 3", "between 2 ranks, not 3"},
		{"init -n 0", "at least 1 rank"},
		{"allreduce --sizes 1-2", "allreduce has no point at --sizes 1-2"},
		{"allreduce --sizes 1M --memory 1K", "of buffers per rank"},
		{"latency --json --plot", "--plot draws"},
		{"latency --iterations -1", "negative"},
		{"overhead --rounds 6", "--rounds must be at least 7"},
		{"overhead --op init", "recording begins after init"},
		{"overhead --op latency -n 3", "between 2 ranks, not 3"},
		{"overhead --op barrier --size 8 --op foo", `unknown operation "foo"`},
		{"overhead --op bw --size 0", "bw has no point at --size 0"},
		{"versus --op latency,foo", `unknown operation "foo"`},
		{"versus --rounds 6", "--rounds must be at least 7"},
		{"versus --peer intel", "--peer: unknown name \"intel\"; choose from openmpi, mpich"},
		{"versus --transport pigeon", "--transport: unknown name \"pigeon\""},
		{"versus --op latency --ranks 3", "none of these operations"},
		{"versus --ranks 2-1M", "at most 1024 ranks"},
		{"versus --transport rdma --peers /opt", "--peers /opt: over rdma"},
		{"performance --rounds 6", "--rounds must be at least 7"},
		{"performance --time 0s", "--time more than 0"},
		{"tune --json --rounds 3", "--rounds of at least 4"},
		{"tune --hosts a:2,b:2", "with --hosts it wants --output FILE"},
		{"tune ibcast --hosts a:2,b:2 --output /dev/null", "ibcast is tuned within one node"},
		{"tune ibcast --transport tcp", "and shm in --transport"},
		{"tune iscan", `"iscan" cannot be tuned`},
	} {
		out := runCommand(t, "/bin/ibrun", nil, strings.Fields(c.words)...)
		if out.code != exitUsage || out.stdout != "" || out.launched != nil || !strings.Contains(out.stderr, c.want) {
			t.Errorf("%s: %+v; want %q", c.words, out, c.want)
		}
	}
}

// TestEnvironment: flags can be set by environment variables; the command line wins.
func TestEnvironment(t *testing.T) {
	env := []string{"IBRUN_BENCH_NP=4", "IBRUN_BENCH_SIZES=8"}
	if out := runCommand(t, "/opt/ibrun", env, "allreduce"); len(out.launched) < 2 || out.launched[1] != "4" {
		t.Errorf("launched %q, stderr %q", out.launched, out.stderr)
	}
	if out := runCommand(t, "/opt/ibrun", env, "allreduce", "-n", "3"); len(out.launched) < 2 || out.launched[1] != "3" {
		t.Errorf("launched %q, stderr %q", out.launched, out.stderr)
	}
	out := runCommand(t, "/opt/ibrun", []string{"IBRUN_BENCH_SIZES=x"}, "allreduce")
	if out.code != exitUsage || !strings.Contains(out.stderr, "IBRUN_BENCH_SIZES=x") {
		t.Errorf("exit %d, stderr %q", out.code, out.stderr)
	}
}

func TestLaunch(t *testing.T) {
	out := runCommand(t, "/opt/ibrun", nil, "allreduce", "-np", "4", "--sizes", "8", "--plot")
	want := []string{"-n", "4", "--", "/opt/ibrun", "bench", "allreduce", "--width", "99", "-np", "4", "--sizes", "8", "--plot"}
	if !slices.Equal(out.launched, want) || out.code != 7 || out.stderr != "" {
		t.Errorf("launched %q, exit %d, stderr %q; want %q, exit 7", out.launched, out.code, out.stderr, want)
	}
	if out := runCommand(t, "/opt/ibrun", []string{"IBRUN_PERF=off"}, "overhead"); out.code != exitUsage || out.launched != nil {
		t.Errorf("overhead of nothing: exit %d, %s", out.code, out.stderr)
	}
	if out := runCommand(t, "/opt/ibrun", []string{"IBRUN_PROTOCOL=read"}, "paths"); out.code != exitUsage || out.launched != nil {
		t.Errorf("paths without a choice: exit %d, %s", out.code, out.stderr)
	}
	for _, name := range []string{"versus", "performance"} {
		if out := runCommand(t, "/opt/ibrun", []string{"PMI_FD=3"}, name); out.code != exitUsage {
			t.Errorf("%s as a rank: exit %d, %s", name, out.code, out.stderr)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, words := range []string{"", "help", "--help"} {
		out := runCommand(t, "", nil, strings.Fields(words)...)
		for _, op := range allOps() {
			if !strings.Contains(out.stdout, "\n  "+op.Name+" ") || out.code != 0 {
				t.Errorf("%q: exit %d, %s is not listed:\n%s", words, out.code, op.Name, out.stdout)
			}
		}
	}
	about := map[string]string{
		"versus": "Compare with", "verbs": "Compare RDMA", "overhead": "Measure the cost", "hints": "Measure the gain",
		"goroutines": "Measure many goroutines", "paths": "Compare the protocol",
	}
	for _, op := range allOps() {
		about[op.Name] = fmt.Sprintf("Measure %s, in %s: ", op.Name, op.Unit)
	}
	for name, does := range about {
		out := runCommand(t, "", nil, name, "--help")
		begin := "usage: ibrun bench " + name + " [flags]\n\n" + does
		if out.code != 0 || out.launched != nil ||
			!strings.HasPrefix(out.stdout, begin) || !strings.Contains(out.stdout, "\n  --json ") {
			t.Errorf("%s --help: exit %d\n%s%s\nwant it to begin\n%s", name, out.code, out.stdout, out.stderr, begin)
		}
	}
}

func TestInit(t *testing.T) {
	self, _ := fakes(t, nil)
	out := runCommand(t, self, nil, "init", "-n", "3", "--json")
	var r bench.Result
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil || out.code != 0 {
		t.Fatalf("exit %d, %v\n%s%s", out.code, err, out.stdout, out.stderr)
	}
	if r.Op != "init" || r.Ranks != 3 || r.Unit != bench.Milliseconds || r.Value <= 0 || r.Iterations != 7 {
		t.Errorf("%+v", r)
	}
}

func TestSizesFor(t *testing.T) {
	some := cli.Ranges{{Low: 0, High: 16}, {Low: 8, High: 8}, {Low: 6, High: 6}}
	for name, want := range map[string][]int{
		"latency": {0, 1, 2, 4, 8, 16, 6}, "bw": {1, 2, 4, 8, 16, 6}, "allreduce": {4, 8, 16}, "barrier": {0}, "init": {0},
	} {
		op, err := lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := sizesFor(op, some); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		took time.Duration
		done int
		want time.Duration
	}{
		{4 * s, 1, 50 * ms},  // needs 24 s, 30 s remain
		{10 * s, 1, 20 * ms}, // needs 60 s, 24 s remain
		{34 * s, 6, ms},      // no time remains
	} {
		if got := shortenedTime(50*ms, c.took, 34*s, c.done, 7); got != c.want {
			t.Errorf("after %d rounds in %v: %v, want %v", c.done, c.took, got, c.want)
		}
	}
}

func TestQuoteCommand(t *testing.T) {
	if got, want := quoteCommand([]string{"a", "b c", "", "it's"}), `a 'b c' '' 'it'\''s'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
