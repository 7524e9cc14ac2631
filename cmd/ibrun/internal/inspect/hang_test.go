package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/jobs"
)

// waitingRank returns a rank that has waited in an operation for 31 s.
func waitingRank(rank int, op string, peer, tag int) jobs.Rank {
	return jobs.Rank{Rank: rank, State: jobs.Running, Calls: 5, Process: "S", Quiet: 31,
		Waits: []jobs.Wait{{Seq: 9, Op: op, Peer: peer, Tag: tag, Seconds: 31.4}}}
}

// groupTexts returns the lines of the groups of two samples.
func groupTexts(first, then []jobs.Rank) (all []string) {
	for _, g := range groupRanks(first, then, time.Second) {
		all = append(all, g.text())
	}
	return all
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestGroups: the order of the groups is: stopped or exited ranks, ranks outside MPI, waiting ranks with the smallest group
// first, ranks that make progress.
func TestGroups(t *testing.T) {
	barrier := func(rank, peer int) jobs.Rank {
		r := waitingRank(rank, "Barrier", peer, 0)
		r.Waits[0].Collective = true
		return r
	}
	then := []jobs.Rank{
		waitingRank(0, "Recv", 3, 7), waitingRank(1, "Recv", 3, 7), waitingRank(2, "Send", 4, -1),
		{Rank: 3, State: jobs.Running, Calls: 5, CPU: 40, Process: "S", Quiet: 31},
		{Rank: 4, State: jobs.Stopped, Process: "T", Quiet: 3, Waits: barrier(4, 3).Waits},
		{Rank: 5, State: jobs.Starting, Process: "S", WaitsIn: "do_wait", Quiet: 60},
		barrier(6, 7), barrier(7, 3), barrier(8, -1),
		{Rank: 9, State: jobs.Running, Calls: 50, Process: "R"},
		{Rank: 10, State: jobs.Ended, Quiet: 75},
		{Rank: 11, State: jobs.Finalized, Process: "S", Quiet: 2},
		{Rank: 12, State: jobs.Running, Error: "another version", Quiet: 2},
		{Rank: 13, State: jobs.Running, Calls: 5, CPU: 7, Process: "D", Quiet: 31},
	}
	first := slices.Clone(then)
	first[3].CPU, first[9].Calls = 39.1, 20
	then[7].Waits[0].Seconds = 12
	wantLines(t, groupTexts(first, then),
		"rank 4: stopped by a signal or a debugger, for 3 s; rank 2 waits for it",
		"rank 10: process exited 1m15s ago",
		"rank 12: record cannot be read: another version, for 2 s",
		"rank 3: computing, not in MPI, for 31 s; 4 ranks (0-1,4,7) wait for it",
		"rank 5: no record (before Init, or without package mpi), asleep (do_wait), for 1m0s",
		"rank 13: waiting in the kernel, not in MPI, for 31 s",
		"rank 2: in Send to rank 4, for 31 s",
		"2 ranks (0-1): in Recv from rank 3, tag 7, for 31 s",
		"3 ranks (6-8): in Barrier, for 12 s to 31 s, waiting for rank 3",
		"rank 9: making progress",
		"rank 11: finalized, and asleep, for 2 s",
	)
}

// TestManyPeers: many ranks that wait for different peers are one line.
func TestManyPeers(t *testing.T) {
	var ring []jobs.Rank
	for i := range 100 {
		ring = append(ring, waitingRank(i, "Recv", (i+1)%100, 7))
	}
	wantLines(t, groupTexts(ring, ring), "100 ranks (0-99): in Recv from different ranks, for 31 s")
	wantLines(t, groupTexts(ring[:2], ring[:2]),
		"rank 0: in Recv from rank 1, tag 7, for 31 s", "rank 1: in Recv from rank 2, tag 7, for 31 s")
	two := waitingRank(0, "Recv", 1, 7)
	two.Waits = append(two.Waits, jobs.Wait{Seq: 10, Op: perf.NoOp.String(), Peer: 2, Tag: -1, Seconds: 1})
	wantLines(t, groupTexts(nil, []jobs.Rank{two}),
		"rank 0: in Recv from rank 1, tag 7, and within package mpi with rank 2, for 31 s")
}

func TestWaitCycle(t *testing.T) {
	for _, c := range []struct {
		ranks []jobs.Rank
		want  []int
	}{
		{[]jobs.Rank{waitingRank(0, "Recv", 1, 0), waitingRank(1, "Send", 2, 0), waitingRank(2, "Recv", 1, 0)}, []int{1, 2}},
		{[]jobs.Rank{waitingRank(0, "Recv", 1, 0), waitingRank(1, "Recv", 2, 0), waitingRank(2, "Recv", -1, 0)}, nil},
		{[]jobs.Rank{waitingRank(0, "Recv", 1, 0), {Rank: 1, State: jobs.Running}}, nil},
		{[]jobs.Rank{waitingRank(0, "Recv", 0, 0)}, []int{0}},
		{[]jobs.Rank{waitingRank(0, "Recv", 9, 0)}, nil},
	} {
		if got := waitCycle(c.ranks, c.ranks); !slices.Equal(got, c.want) {
			t.Errorf("%+v: a cycle of %v, want %v", c.ranks, got, c.want)
		}
	}
	collective := func(op string, tag int) []int {
		ranks := []jobs.Rank{waitingRank(0, op, 1, tag), waitingRank(1, "Recv", 0, 0)}
		ranks[0].Waits[0].Collective = true
		return waitCycle(ranks, ranks)
	}
	if got := collective("Allreduce", 0); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("a cycle of %v through a collective, want 0 and 1", got)
	}
	if collective("Iallreduce", -1) != nil || collective("Iallreduce", 0) != nil || collective("Wait", -1) != nil {
		t.Error("a cycle through a collective that goes on while its rank waits")
	}
	two := []jobs.Rank{waitingRank(0, "Recv", 1, 0), waitingRank(1, "Recv", 0, 0)}
	two[0].Waits = append(two[0].Waits, jobs.Wait{Op: "Recv", Peer: 5}) // another goroutine, which may resolve it
	if got := waitCycle(two, two); got != nil {
		t.Errorf("a cycle of %v although rank 0 can make progress", got)
	}
}

// TestWaitCycleOfProgress: ranks that were in other operations a moment ago are in no cycle.
func TestWaitCycleOfProgress(t *testing.T) {
	then := []jobs.Rank{waitingRank(0, "Recv", 1, 0), waitingRank(1, "Send", 0, 0)}
	first := []jobs.Rank{waitingRank(0, "Recv", 1, 0), waitingRank(1, "Send", 0, 0)}
	first[1].Waits[0].Seq--
	if got := waitCycle(first, then); got != nil {
		t.Errorf("a cycle of %v although rank 1 makes progress", got)
	}
	then[0].Calls++
	then[1].Calls++
	wantLines(t, groupTexts(first, then),
		"rank 0: in Recv from rank 1, tag 0, for 31 s", "rank 1: in Send to rank 0, tag 0, for 31 s")
	then[0].Quiet, then[1].Quiet = 0, 0
	wantLines(t, groupTexts(first, then), "2 ranks (0-1): making progress")
}

// TestOtherTags: a message with another tag than the one its receiver waits for is named.
func TestOtherTags(t *testing.T) {
	ranks := []jobs.Rank{waitingRank(2, "Send", 3, 1001), waitingRank(3, "Recv", 2, 1000), waitingRank(4, "Recv", 3, 7),
		waitingRank(5, "Send", 6, 1), waitingRank(6, "Recv", 5, -1)}
	want := []OtherTag{{2, 1001, 3, 1000}}
	if got := otherTags(ranks, ranks); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	var text strings.Builder
	v := View{OtherTags: want}
	const line = "rank 2 sends tag 1001 to rank 3, which waits for tag 1000\n"
	if err := v.Text(&text); err != nil || !strings.Contains(text.String(), line) {
		t.Errorf("%v\n%s", err, &text)
	}
}

// fakeSource is a source with constant ranks. Only rank 1 returns its stacks.
type fakeSource struct {
	ranks        []jobs.Rank
	snapshots    []*perf.Snapshot
	stackRequest []int
}

func (f *fakeSource) Job() jobs.Job {
	return jobs.Job{ID: "k1", Host: "n0", Nodes: 2, Size: 9, Here: len(f.ranks), PID: 7, Command: []string{"./a", "b"},
		Began: time.Now()}
}

func (f *fakeSource) Ranks(context.Context) ([]jobs.Rank, error) { return f.ranks, nil }

func (f *fakeSource) Snapshots(context.Context) ([]*perf.Snapshot, error) { return f.snapshots, nil }

func (f *fakeSource) Stacks(_ context.Context, ranks []int) (map[int]string, error) {
	f.stackRequest = ranks
	return map[int]string{1: goroutines}, nil
}

const goroutines = `goroutine 1 gp=0x1 [syscall]:
syscall.Syscall6(0x10f, 0x751e4643bc0)
	/usr/local/go/src/syscall/syscall_linux.go:96 +0x39
github.com/ibrun/ibrun/mpi/internal/proto.(*Engine).Recv(0x751e46e8008, {0x0, 0x1}, {0x8})
	/ibrun/mpi/internal/proto/recv.go:20 +0x125
github.com/ibrun/ibrun/mpi.Recv[...](0x980460?, {0x1, 0x2})
	/ibrun/mpi/recv.go:13 +0x35
main.main()
	/a/main.go:21 +0x11a

goroutine 7 [select, 3 minutes]:
runtime.gopark(...)
	/usr/local/go/src/runtime/proc.go:1
created by main.main in goroutine 1
	/a/main.go:9 +0x1
`

// TestView: stacks are requested from the ranks that wait for each other, then from one rank of each of the first groups that can
// answer, and internal frames are omitted.
func TestView(t *testing.T) {
	f := &fakeSource{ranks: []jobs.Rank{waitingRank(0, "Recv", 2, 7), {Rank: 1, State: jobs.Running, Process: "S"},
		{Rank: 2, State: jobs.Stopped}, waitingRank(3, "Recv", 5, 7), waitingRank(4, "Recv", 5, 7), waitingRank(5, "Send", 4, 1)}}
	v, err := NewView(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{5, 4, 1, 0}; !slices.Equal(f.stackRequest, want) {
		t.Errorf("stacks of ranks %v were requested, want %v", f.stackRequest, want)
	}
	var text strings.Builder
	if err := v.Text(&text); err != nil {
		t.Fatal(err)
	}
	const want = `state of the ranks of job k1 on 2 nodes, less than 1 s after its start:
  rank 2: stopped by a signal or a debugger, for less than 1 s; rank 0 waits for it
  rank 1: asleep, not in MPI, for less than 1 s
  rank 0: in Recv from rank 2, tag 7, for 31 s
  rank 5: in Send to rank 4, tag 1, for 31 s
  2 ranks (3-4): in Recv from rank 5, tag 7, for 31 s
  deadlock, each rank waits for the next: 5 -> 4 -> 5
  rank 5 sends tag 1 to rank 4, which waits for tag 7
rank 5 did not return its goroutines
rank 4 did not return its goroutines
goroutines of rank 1:
  | goroutine 1 gp=0x1 [syscall]:
  |     github.com/ibrun/ibrun/mpi.Recv[...] at /ibrun/mpi/recv.go:13
  |     main.main at /a/main.go:21
  | goroutine 7 [select, 3 minutes]:
  |     created by main.main in goroutine 1 at /a/main.go:9
rank 0 did not return its goroutines
`
	if text.String() != want {
		t.Errorf("the view is\n%s\nwant\n%s", text.String(), want)
	}
}

// TestCycleOnTheirWay: ranks that wait for each other are called deadlocked only if no message is on its way, at neither of two
// times, and that is known.
func TestCycleOnTheirWay(t *testing.T) {
	for _, c := range []struct {
		change func(first, then []jobs.Rank)
		want   string
	}{
		{func([]jobs.Rank, []jobs.Rank) {}, "  deadlock, each rank waits for the next: 0 -> 1 -> 0\n"},
		{func(first, then []jobs.Rank) { first[0].Sent, then[0].Sent = 9, 9 },
			"  each rank waits for the next: 0 -> 1 -> 0\n  messages and transfers on their way between ranks: 2\n"},
		{func(first, then []jobs.Rank) { first[0].Sent, then[0].Sent, then[1].Arrived = 9, 9, 9 },
			"  each rank waits for the next: 0 -> 1 -> 0, unless a message is on its way\n"},
		{func(_, then []jobs.Rank) { then[0].Sent, then[1].Arrived = 9, 9 }, // others exchange messages
			"  each rank waits for the next: 0 -> 1 -> 0, unless a message is on its way\n"},
		{func(first, then []jobs.Rank) { first[1].Arrived, then[1].Arrived = 9, 9 }, // read at different times
			"  each rank waits for the next: 0 -> 1 -> 0, unless a message is on its way\n"},
		{func(_, then []jobs.Rank) { then[1].Paused = true },
			"  each rank waits for the next: 0 -> 1 -> 0, unless a message is on its way\n"},
	} {
		sample := func() []jobs.Rank {
			ranks := []jobs.Rank{waitingRank(0, "Recv", 1, 7), waitingRank(1, "Recv", 0, 7)}
			ranks[0].Sent, ranks[1].Arrived = 7, 7
			return ranks
		}
		first, then := sample(), sample()
		c.change(first, then)
		v := &View{WaitCycle: waitCycle(first, then), OnTheirWay: onTheirWay(first, then)}
		var text strings.Builder
		if err := v.Text(&text); err != nil || !strings.HasSuffix(text.String(), ":\n"+c.want) {
			t.Errorf("%q, want %q, %v", text.String(), c.want, err)
		}
	}
}

// TestStateTracker: it measures how long a state lasts, without a clock of the rank.
func TestStateTracker(t *testing.T) {
	w := NewStateTracker()
	at := time.Unix(1000, 0)
	for i, c := range []struct {
		after  int // seconds
		pulse  perf.Activity
		quiet  int
		waits  []int
		reason string
	}{
		{0, perf.Activity{}, 0, nil, "first seen"},
		{5, perf.Activity{}, 5, nil, "nothing has happened"},
		{6, perf.Activity{Calls: 1}, 0, nil, "a call has ended"},
		{7, perf.Activity{Calls: 1, Current: []perf.Current{{Seq: 4}}}, 0, []int{0}, "one has begun"},
		{9, perf.Activity{Calls: 1, Current: []perf.Current{{Seq: 4}}}, 2, []int{2}, "it continues"},
		{10, perf.Activity{Calls: 1, Current: []perf.Current{{Seq: 4}, {Seq: 6}}}, 0, []int{3, 0}, "a second has begun"},
		{12, perf.Activity{Calls: 2, Current: []perf.Current{{Seq: 7}, {Seq: 6}}}, 0, []int{0, 2}, "one has ended and another begun"},
		{13, perf.Activity{Calls: 2}, 0, nil, "all have ended"},
		{15, perf.Activity{Calls: 2}, 2, nil, "not in MPI"},
	} {
		quiet, waits := w.Observe(3, c.pulse, at.Add(time.Duration(c.after)*time.Second))
		want := []time.Duration(nil)
		for _, s := range c.waits {
			want = append(want, time.Duration(s)*time.Second)
		}
		if quiet != time.Duration(c.quiet)*time.Second || !slices.Equal(waits, want) {
			t.Errorf("%d (%s): quiet %v, waits %v, want %d s and %v", i, c.reason, quiet, waits, c.quiet, want)
		}
	}
}

// TestNodes: with several nodes, lines name the nodes of the ranks and the nodes that do not answer.
func TestNodes(t *testing.T) {
	ranks := []jobs.Rank{waitingRank(0, "Recv", 1, 7), {Rank: 1, State: jobs.Stopped, Quiet: 3}, waitingRank(2, "Recv", 1, 7),
		{Rank: 3, State: jobs.Unreachable},
		waitingRank(4, "Recv", 1, 7), waitingRank(5, "Recv", 1, 7)}
	for i := range ranks {
		ranks[i].Host = fmt.Sprintf("n%d", i)
	}
	wantLines(t, groupTexts(ranks, ranks),
		"rank 1 on n1: stopped by a signal or a debugger, for 3 s; 4 ranks (0,2,4-5) wait for it",
		"rank 3 on n3: unknown: their node does not answer",
		"4 ranks (0,2,4-5) on 4 nodes: in Recv from rank 1, tag 7, for 31 s")
	ranks[4].Host, ranks[5].Host = "n0", "n2"
	wantLines(t, groupTexts(ranks, ranks)[2:], "4 ranks (0,2,4-5) on n0, n2: in Recv from rank 1, tag 7, for 31 s")
}

func TestTable(t *testing.T) {
	first := []jobs.Rank{{Rank: 0, Calls: 10, BytesOut: 1 << 20, MPI: 1, CPU: 1}, waitingRank(1, "Recv", 0, 7),
		{Rank: 2, Calls: 100}}
	then := []jobs.Rank{{Rank: 0, State: jobs.Running, PID: 77, Calls: 2510, BytesOut: 5 << 20, BytesIn: 600,
		BytesCollective: 5000, MPI: 2, CPU: 2.5, Unexpected: 3, Host: "n0", Done: 4, Total: 9},
		waitingRank(1, "Recv", 0, 7), {Rank: 2, State: jobs.Stopped, Calls: 7}, {Rank: 3, State: jobs.Starting}}
	table := newTable((&fakeSource{}).Job(), first, then, 2*time.Second)
	var text strings.Builder
	if err := table.Text(&text, 6, 68); err != nil {
		t.Fatal(err)
	}
	want := `job k1 on 2 nodes: 9 ranks, running less than 1 s: ./a b
  RANK  NODE  PID    STATE   MPI  CPU  CALLS/s  OUT/s  IN/s  COLL/s
     0    n0   77  running   50%  75%    1.25k  2.10M   300   2.50k
     1          0  running  100%   0%        0      0     0       0
     2          0  stopped    0%   0%        0      0     0       0
1 more ranks
`
	if text.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", text.String(), want)
	}
	text.Reset()
	if err := table.Text(&text, 0, 0); err != nil || !strings.Contains(text.String(), "3       0  4 of 9\n") ||
		!strings.Contains(text.String(), "Recv from rank 0, tag 7, 31 s\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
	for x, want := range map[float64]string{0: "0", 9.4: "9", 999.4: "999", 999.6: "1.00k", 12345: "12.3k", 2e6: "2.00M",
		3.456e9: "3.46G", 5e13: "50T"} {
		if got := formatNumber(x); got != want {
			t.Errorf("%v is shown as %s, want %s", x, got, want)
		}
	}
}

// TestLongMessages: top shows, for each length of the messages of an interval, which protocols they took.
func TestLongMessages(t *testing.T) {
	long := func(transport string, maxBytes int, protocol string, messages uint64) jobs.LongMessages {
		return jobs.LongMessages{Transport: transport, MaxBytes: maxBytes, Protocol: protocol, Messages: messages,
			Bytes: 100 * messages}
	}
	first := []jobs.Rank{{Rank: 0, Long: []jobs.LongMessages{long("shm", 1<<16, "read", 1000), long("tcp", -1, "copied", 9)}},
		{Rank: 1}}
	then := []jobs.Rank{
		{Rank: 0, Long: []jobs.LongMessages{long("shm", 1<<16, "read", 1010), long("tcp", -1, "copied", 9)}},
		{Rank: 1, Long: []jobs.LongMessages{long("shm", 1<<16, "parts", 40), long("shm", 1<<16, "read", 50),
			long("shm", 1<<21, "shared", 1), long("tcp", 1<<17, "copied", 2), long("tcp", -1, "copied", 3)}},
		{Rank: 2, Long: []jobs.LongMessages{long("shm", 1<<16, "shared", 1<<40)}}, // it has joined since
	}
	table := newTable(jobs.Job{}, first, then, time.Second)
	want := []jobs.LongMessages{long("shm", 1<<16, "parts", 40), long("shm", 1<<16, "read", 60), long("shm", 1<<21, "shared", 1),
		long("tcp", 1<<17, "copied", 2), long("tcp", -1, "copied", 3)}
	if !slices.Equal(table.Long, want) {
		t.Errorf("%+v, want %+v", table.Long, want)
	}
	var text strings.Builder
	if err := table.Text(&text, 5, 0); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	const line = "long messages: shm 64K read 60% parts 40%, 2M shared 100%, tcp 128K copied 100%, >64M copied 100%"
	if len(lines) != 6 || lines[1] != line || lines[4] != "2 more ranks" {
		t.Errorf("it prints\n%s\nwant in the second of five lines\n%s", text.String(), line)
	}
	text.Reset()
	err := table.Text(&text, 4, 0)
	if err != nil || strings.Count(text.String(), "\n") != 4 || strings.Contains(text.String(), "shm") {
		t.Errorf("%v: in four lines it prints\n%s", err, text.String())
	}
}

// TestNamedComm: a wait shows the name of its communicator, without its control characters, also in top.
func TestNamedComm(t *testing.T) {
	for _, x := range []struct {
		w    jobs.Wait
		want string
	}{
		{jobs.Wait{Op: "Recv", Peer: 3, Tag: 7, Comm: "oc\x1b[2Jean"}, `in Recv from rank 3, tag 7, on "oc\x1b[2Jean"`},
		{jobs.Wait{Op: "Barrier", Collective: true, Peer: 1, Tag: -1, Comm: "a", Where: "b.go:1"}, `in Barrier, on "a", at b.go:1`},
	} {
		if got := waitText(&x.w); got != x.want {
			t.Errorf("%s, want %s", got, x.want)
		}
		row := Row{Rank: jobs.Rank{Waits: []jobs.Wait{x.w}}}
		if got := row.currentCalls(); "in "+got != x.want+", less than 1 s" {
			t.Errorf("top shows %s", got)
		}
	}
}

// FuzzView: the ranks of every response can be shown and encoded.
func FuzzView(f *testing.F) {
	f.Add([]byte(`[{"rank":1,"pid":8,"state":"running","waits":[{"op":"Recv","peer":0}]}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var ranks []jobs.Rank
		if json.Unmarshal(text, &ranks) != nil {
			return
		}
		table := newTable(jobs.Job{}, ranks, ranks, sampleInterval)
		v := &View{Groups: groupRanks(ranks, ranks, sampleInterval), WaitCycle: waitCycle(ranks, ranks),
			OnTheirWay: onTheirWay(ranks, ranks), OtherTags: otherTags(ranks, ranks)}
		if _, err := json.Marshal(v); err != nil || len(table.Rows) != len(ranks) {
			t.Errorf("%s: %v", text, err)
		}
	})
}
