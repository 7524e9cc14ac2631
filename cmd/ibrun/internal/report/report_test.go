package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/perf"
)

// startTime is when the jobs of the tests were started.
var startTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// recorded returns the record of one of four ranks. It ran for ten seconds, was in calls for the time inMPI, and waited for a
// part of it.
func recorded(rank int, inMPI, waiting time.Duration) *perf.Snapshot {
	return &perf.Snapshot{
		Identity: perf.Identity{Rank: rank, Size: 4, PID: 100 + rank}, State: perf.Finalized,
		Began: startTime, Ended: startTime.Add(10 * time.Second), Waiting: waiting,
		Ops: []perf.OpStat{
			{Op: perf.Barrier, Calls: 1, Time: inMPI / 2, Latency: perf.HistogramOf(inMPI / 2)},
			{Op: perf.Send, Class: perf.ClassOf(4096), Calls: 3, Bytes: 12288, Time: inMPI / 2,
				Latency: perf.HistogramOf(time.Microsecond, time.Millisecond, inMPI/2)},
		},
		Traffic: []perf.Traffic{
			{Direction: perf.Out, Transport: perf.Shm, Protocol: perf.Eager, Volume: perf.Volume{Messages: 3, Bytes: 12288}},
			{Direction: perf.In, Transport: perf.Shm, Protocol: perf.Eager, Volume: perf.Volume{Messages: 3, Bytes: 12288}},
		},
		Long: []perf.LongTraffic{
			{Transport: perf.Shm, Protocol: perf.Read, MaxBytes: 1 << 16, Volume: perf.Volume{Messages: 3, Bytes: 180000}},
			{Transport: perf.Shm, Protocol: perf.Parts, MaxBytes: 1 << 17, Volume: perf.Volume{Messages: 1, Bytes: 100000}},
			{Transport: perf.Shm, Protocol: perf.Shared, MaxBytes: 1 << 17, Volume: perf.Volume{Messages: 2, Bytes: 200000}},
			{Transport: perf.TCP, Protocol: perf.Copied, MaxBytes: -1, Volume: perf.Volume{Messages: uint64(1 + rank), Bytes: 1 << 30}},
		},
		Peers: []perf.Peer{{Rank: (rank + 1) % 4, Transport: perf.Shm, Out: perf.Volume{Messages: 3, Bytes: 12288}},
			{Rank: (rank + 3) % 4, Transport: perf.Shm, In: perf.Volume{Messages: 3, Bytes: 12288}}},
	}
}

// slowJob returns a job with four ranks, the third of which is slow.
func slowJob() Job {
	j := Job{ID: "job", Version: "v1", Programs: []Program{{Ranks: 4, Args: []string{"./<b>sum</b>", "\x1b[2J"}, Go: "go1.26"}},
		Began: startTime, Wall: 11 * time.Second,
		Nodes: []Node{{Name: "<i>node</i>", Version: "v1", Kernel: "Linux 6", PUs: 8, Environment: []Variable{{"GOGC", "50"}},
			Ports: []Port{{"mlx5_0:1", RDMA, 3e6, 3e6}, {"mlx5_1:1", RDMA, 1e6, 1e6}}}}}
	for i := range 4 {
		s := recorded(i, 6*time.Second, 5*time.Second)
		if i == 2 {
			s = recorded(i, time.Second, 100*time.Millisecond)
		}
		j.Ranks = append(j.Ranks, Rank{Snapshot: s})
		j.Nodes[0].Ranks = append(j.Nodes[0].Ranks, Place{Rank: i, Bound: []string{"0-1", "2-3", "4-5", "6-7"}[i]})
	}
	return j
}

func text(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func wantAll(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestText: the text has every figure of a small job and the slowest rank with the reason, and no control characters.
func TestText(t *testing.T) {
	got := text(t, New(slowJob()))
	wantAll(t, got,
		"Report of job job: 4 ranks on <i>node</i>, 11.0 s, exit code 0",
		"Program   ./<b>sum</b> \\x1b[2J",
		"MPI       48 % of the ranks' time, 38 % waiting for others, in 16 calls",
		"Sent      49.2 kB in 12 messages (shm eager 100 %)",
		"Slowest   rank 2: it waited 1.0 % of its time, the others 50 % (median); "+
			"it spent 9.00 s outside MPI, the others 4.00 s (median)",
		"on <i>node</i>, RDMA port mlx5_0:1 carried 50 % more than the mean of 2",
		"     0  [##########==        ]    60 %     50 %  10.0 s      4  12.3 kB   12.3 kB  finalized",
		"  Send       <= 4 KiB     12  49.2 kB  9.50 s  999 us  3.00 s  3.00 s  3.00 s",
		"          3  12.3 kB shm            .            .            .",
		"\nMessages that are not eager, by length\n"+
			"  by       length  messages    bytes  protocols\n"+
			"  shm   <= 64 KiB        12   720 kB  read 100 %\n"+
			"  shm  <= 128 KiB        12  1.20 MB  shared 67 %, parts 33 %\n"+
			"  tcp    > 64 MiB        10  4.29 GB  copied 100 %\n",
		"rank 1: bound to processors 2-3", "GOGC=50", "node 0      <i>node</i>, Linux 6, 8 processors")
	for _, c := range got {
		if c < ' ' && c != '\n' {
			t.Errorf("the text has the character %q", c)
		}
	}
}

// TestSlowestOfKilled: a rank that was in a call at the end is not the slowest one, however little it has waited before.
func TestSlowestOfKilled(t *testing.T) {
	j := slowJob()
	s := j.Ranks[2].Snapshot
	s.State, s.Current = perf.Running, []perf.Current{{Op: perf.Recv, Peer: 1, Tag: 7}}
	if got := New(j).Slowest; got != nil {
		t.Errorf("the slowest is %v, want none: the others have waited equally long", got)
	}
	j.Ranks[1].Snapshot.Waiting = time.Second
	if got := New(j).Slowest; got == nil || got.Rank != 1 {
		t.Errorf("the slowest is %v, want rank 1", got)
	}
}

// TestJSON: the fields are those that docs/report.md lists, and reading the file back gives the same report.
func TestJSON(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.json")
	want := New(slowJob())
	if err := want.Write(name); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := new(Report)
	if err := json.Unmarshal(written, got); err != nil {
		t.Fatal(err)
	}
	if a, b := text(t, got), text(t, want); a != b {
		t.Errorf("read back it is\n%s\nwant\n%s", a, b)
	}
	documented, err := os.ReadFile("../../../../docs/report.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fields(reflect.TypeFor[Report](), nil) {
		if !strings.Contains(string(documented), "`"+name+"`") {
			t.Errorf("docs/report.md does not explain %s", name)
		}
	}
}

// fields returns the JSON names of all fields of a type.
func fields(t reflect.Type, known []string) []string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return fields(t.Elem(), known)
	case reflect.Struct:
		for f := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(f).Tag.Get("json"), ","); name != "" {
				known = fields(t.Field(f).Type, append(known, name))
			}
		}
	}
	return known
}

// TestFailures: remarks name what is missing, and the rest is shown.
func TestFailures(t *testing.T) {
	j := slowJob()
	j.Code, j.Failure = 137, []string{"rank 1 was killed"}
	dead := j.Ranks[1].Snapshot
	dead.State, dead.Ended = perf.Running, time.Time{}
	dead.Current = []perf.Current{{Op: perf.Recv, Peer: 2, Tag: 7}, {Op: perf.Bcast.Within(), Peer: 3, Tag: 9}}
	j.Ranks[2] = Rank{Err: &perf.VersionError{Got: 9, Want: perf.Version}}
	j.Ranks[3] = Rank{}
	j.Nodes = append(j.Nodes, Node{Name: "lost"})
	wantAll(t, text(t, New(j)),
		"on 2 nodes, 11.0 s, exit code 137", "Failed    rank 1 was killed",
		"rank 1 ended without Finalize; the figures cover the time until then",
		"rank 1 was in Recv from rank 2 with tag 7 at the end", "rank 1 was in Bcast (waiting for rank 3) at the end;",
		"rank 3 recorded nothing", "the record of rank 2 cannot be read: perf: the program writes pages of version 9",
		"node 1 (lost) reported nothing",
		"          2            .            .            .  .\n", // neither rank has a record
		"          3  12.3 kB shm            .            .  .\n", // from the record of the receiver
	)
}

// TestEnvironment: a report has only the variables that docs/report.md names.
func TestEnvironment(t *testing.T) {
	documented, err := os.ReadFile("../../../../docs/report.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Environment(func(string) string { return "x" }) {
		if !strings.Contains(string(documented), "`"+v.Name+"`") {
			t.Errorf("docs/report.md does not name %s", v.Name)
		}
	}
	got := Environment(func(name string) string { return map[string]string{"GOGC": "7", "TOKEN": "secret"}[name] })
	if !slices.Equal(got, []Variable{{"GOGC", "7"}}) {
		t.Errorf("got %v", got)
	}
}

// TestWriteFails: a missing directory and an unknown extension are errors, and leave no file behind.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	r := New(slowJob())
	for _, name := range []string{dir + "/none/a.json", dir + "/a.txt", dir} {
		if err := r.Write(name); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if err := os.Mkdir(dir+"/taken.json", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(dir + "/taken.json"); err == nil {
		t.Error("a directory was written over")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestUnits: numbers have three digits and a suitable unit.
func TestUnits(t *testing.T) {
	for got, want := range map[string]string{
		duration(0): "0 s", duration(17e-9): "17.0 ns", duration(1.5e-6): "1.50 us", duration(0.0999): "99.9 ms",
		duration(59.99): "60.0 s", duration(61): "1m01s", duration(7260): "2h01m", size(0): "0 B",
		size(999): "999 B", size(1e3): "1.00 kB", size(999999): "1.00 MB", size(12345678): "12.3 MB", count(0): "0",
		count(1234567): "1,234,567", count(123): "123", percent(0): "0 %", percent(0.012): "1.2 %",
		percent(0.5): "50 %", formatClass(64): "<= 64 B", formatClass(4096): "<= 4 KiB", formatClass(-1): "> 16 MiB",
		formatRanks([]int{3}): "rank 3", formatRanks([]int{0, 1, 2, 5}): "ranks 0-2,5 (4)",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestReconnections: a report says which ranks made connections again, and which received changed bytes.
func TestReconnections(t *testing.T) {
	ranks := []RankLine{{Rank: 0}, {Rank: 1, Reconnections: 4, Changes: 1}, {Rank: 2}, {Rank: 3, Reconnections: 4}}
	got := strings.Join(reconnections(ranks), "\n")
	for _, want := range []string{formatRanks([]int{1, 3}) + " made broken connections again, 8 times",
		"rank 1 received changed bytes 1 times"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if got := reconnections(ranks[:1]); got != nil {
		t.Errorf("nothing broke, but %q", got)
	}
}

// TestTitle: the first line counts the nodes that run ranks.
func TestTitle(t *testing.T) {
	ranks := []Place{{Rank: 0}}
	for _, c := range []struct {
		nodes []Node
		want  string
	}{
		{[]Node{{Name: "a", Ranks: ranks}}, "on a,"},
		{[]Node{{Name: "login"}, {Name: "a", Ranks: ranks}}, "on a,"},
		{[]Node{{Name: "login"}, {Name: "a", Ranks: ranks}, {Name: "b", Ranks: ranks}}, "on 2 nodes,"},
		{[]Node{{Name: "a", Ranks: ranks}, {Name: "b", Ranks: ranks}}, "on 2 nodes,"},
	} {
		if got := (&Report{Nodes: c.nodes}).Title(); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
