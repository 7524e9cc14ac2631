package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/perf/jobs"
)

// TestWaiting: no rank continues by itself only if each of them waits for long enough.
func TestWaiting(t *testing.T) {
	waiting := func(op string, peer, tag int, bytes uint64) jobs.Rank {
		return jobs.Rank{State: jobs.Running, Quiet: 11, Waits: []jobs.Wait{{Op: op, Peer: peer, Tag: tag, Bytes: bytes}}}
	}
	recv := waiting("Recv", 1, 7, 8)
	with := func(change func(r *jobs.Rank)) jobs.Rank {
		r := waiting("Recv", 0, 7, 8)
		change(&r)
		return r
	}
	for name, test := range map[string]struct {
		second jobs.Rank
		want   bool
	}{
		"both wait":       {waiting("Recv", 0, 7, 8), true},
		"not long enough": {with(func(r *jobs.Rank) { r.Quiet = 9 }), false},
		"computes":        {with(func(r *jobs.Rank) { r.Waits = nil }), false},
		"starts":          {with(func(r *jobs.Rank) { r.State = jobs.Starting }), false},
		"stopped":         {with(func(r *jobs.Rank) { r.State = jobs.Stopped }), false},
		"unreachable":     {with(func(r *jobs.Rank) { r.State = jobs.Unreachable }), false},
		"unreadable":      {with(func(r *jobs.Rank) { r.Error = "x" }), false},
		"finalized":       {jobs.Rank{State: jobs.Finalized}, true},
		"exited":          {jobs.Rank{State: jobs.Ended}, true},
		"long message":    {waiting("Send", 0, 7, 2<<20), true},
	} {
		test.second.Rank = 1
		if got := Waiting([]jobs.Rank{recv, test.second}, 10*time.Second); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if Waiting([]jobs.Rank{{State: jobs.Ended}, {State: jobs.Finalized}}, 10*time.Second) {
		t.Error("nobody waits")
	}
}

// TestMessages: nothing is on its way if as many messages have arrived as were sent, by all ranks together, and all have counted.
// Otherwise the reason names the rank, and what it has done.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		first, second jobs.Rank
		want          bool
		why           string // it is not known
	}{
		{jobs.Rank{Sent: 3, Arrived: 5}, jobs.Rank{Sent: 5, Arrived: 3}, true, ""},
		{jobs.Rank{Sent: 3, Arrived: 5}, jobs.Rank{Sent: 5, Arrived: 2}, false, ""},
		{jobs.Rank{Sent: 3, Arrived: 5}, jobs.Rank{Sent: 5, Arrived: 4}, false, ""}, // read at different times
		{jobs.Rank{Sent: 1}, jobs.Rank{Arrived: 1, State: jobs.Finalized}, true, ""},
		{jobs.Rank{Sent: 1}, jobs.Rank{Rank: 1, Arrived: 1, State: jobs.Unreachable}, false, "rank 1 cannot be read"},
		{jobs.Rank{Sent: 1}, jobs.Rank{Rank: 1, Arrived: 1, Error: "x"}, false, "rank 1 cannot be read"},
		{jobs.Rank{Sent: 1}, jobs.Rank{Rank: 1, State: jobs.Ended, Error: "x"}, false, "rank 1 cannot be read"},
		{jobs.Rank{Sent: 1}, jobs.Rank{Rank: 1, State: jobs.Starting, Error: "x"}, false, "rank 1 cannot be read"},
		{jobs.Rank{Sent: 1}, jobs.Rank{Rank: 1, Arrived: 1, State: jobs.Starting}, false, "rank 1 has recorded nothing"},
		{jobs.Rank{Sent: 1, Paused: true}, jobs.Rank{Rank: 1, Arrived: 1}, false,
			"rank 0 has switched off its recording for some time (Pcontrol)"},
		{jobs.Rank{Paused: true}, jobs.Rank{Rank: 1, Error: "x"}, false,
			"rank 0 has switched off its recording for some time (Pcontrol)"},
	} {
		m := MessagesOf([]jobs.Rank{c.first, c.second})
		left := c.second.State == jobs.Finalized || c.second.State == jobs.Ended
		if m.None() != c.want || m.Left != left || m.Unknown != c.why {
			t.Errorf("%+v: %+v", c, m)
		}
	}
}

// TestMayRun: a goroutine that waits in package mpi, or for another goroutine, cannot run; one that computes, sleeps, or may be
// woken from outside can.
func TestMayRun(t *testing.T) {
	const inMPI = "goroutine 1 [syscall, 2 minutes]:\n" +
		"github.com/ibrun/ibrun/mpi/internal/proto.(*waiters).await(0x1)\n\t/x/wait.go:1 +0x1\nmain.main()\n\t/x/main.go:5 +0x2"
	const library = "\n\ngoroutine 7 [IO wait]:\ninternal/poll.runtime_pollWait()\n\t/x/y.go:1 +0x1\n" +
		"created by github.com/ibrun/ibrun/mpi/internal/bootstrap.(*Process).setCallbacks.func1 in goroutine 1\n\t/x/z.go:3 +0x4\n"
	if g := MayRun(inMPI + library); g != "" {
		t.Errorf("%q may run", g)
	}
	if g := MayRun(strings.Replace(inMPI, "main.main()", contextFunction+"(0x1)\n\t/x/stop.go:1 +0x1\nmain.main()", 1)); g == "" {
		t.Error("a goroutine whose wait a context may end cannot run")
	}
	for state, may := range map[string]bool{
		"running": true, "runnable": true, "syscall": true, "IO wait": true, "sleep": true, "select": true, "chan receive": true,
		"select (no cases)": false, "sync.WaitGroup.Wait": false, "sync.Mutex.Lock": false, "chan send, 3 minutes": false,
	} {
		g := MayRun(inMPI + "\n\ngoroutine 9 [" + state + "]:\nmain.worker()\n\t/x/main.go:31 +0x2\n" +
			"created by main.main in goroutine 1\n")
		if (g != "") != may {
			t.Errorf("%s: %q", state, g)
		}
		if may && g != "goroutine 9 ["+state+"] main.worker at /x/main.go:31" {
			t.Errorf("%s: it is described as %q", state, g)
		}
	}
}
