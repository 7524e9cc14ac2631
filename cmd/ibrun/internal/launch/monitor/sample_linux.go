package monitor

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/jobs"
)

// Sample is a rank of this node as its page and its exit show it.
type Sample struct {
	Rank     int
	Snapshot *perf.Snapshot // nil: the rank has not written its page, or Err is set
	Err      error
	Exited   bool
}

// Samples reads the pages of all ranks of this node, in their order. Any goroutine may call it, until the memory is closed.
func (m *Monitor) Samples() []Sample {
	pages := m.mem.Records()
	all := make([]Sample, len(pages))
	for i, p := range pages {
		all[i] = Sample{m.task.Ranks[i].Rank, p.Snapshot, p.Err, m.exited[i].Load()}
	}
	return all
}

// MarkExited records that a rank has exited. It ignores ranks of other nodes.
func (m *Monitor) MarkExited(rank int) {
	if i := m.task.LocalIndex(rank); i >= 0 {
		m.exited[i].Store(true)
	}
}

// LastCall describes the call that a rank of this node, which has exited, made last. If the calls of the job are checked, it has
// the source position, as "its last call was Recv at solver/main.go:31"; otherwise it is the call in progress, if there was one,
// as "it was in Recv from rank 3 with tag 7". "" means that it is not known.
func (m *Monitor) LastCall(rank int) string {
	i := m.task.LocalIndex(rank)
	if i < 0 {
		return ""
	}
	last, current := m.mem.LastCall(i)
	switch {
	case last.Where != "" && last.Op == perf.NoOp:
		return "its last call was Init at " + last.Where
	case last.Where != "":
		return "its last call was " + last.Op.String() + " at " + last.Where
	case len(current) > 0:
		return "it was in " + current[0].String()
	}
	return ""
}

// LostPeer reports whether an operation of a rank of this node has failed because another process is gone.
func (m *Monitor) LostPeer(rank int) bool {
	i := m.task.LocalIndex(rank)
	return i >= 0 && m.mem.LostPeer(i)
}

// localRanks returns the state of this node's ranks.
func (m *Monitor) localRanks() []jobs.Rank {
	pids := m.startedPIDs()
	seen := m.Samples()
	all := make([]jobs.Rank, len(m.task.Ranks))
	now := time.Now()
	for i := range all {
		g := Sample{Rank: m.task.Ranks[i].Rank, Exited: m.exited[i].Load()}
		if i < len(seen) {
			g = seen[i]
		}
		all[i] = m.rank(g, now)
		if i < len(pids) {
			inspectProcess(&all[i], pids[i], g.Snapshot)
		}
		if g.Exited {
			all[i].State = jobs.Ended
		}
	}
	return all
}

// rank returns the state of a rank from what it has recorded.
func (m *Monitor) rank(g Sample, now time.Time) jobs.Rank {
	r := jobs.Rank{Rank: g.Rank, State: jobs.Starting}
	if g.Err != nil {
		r.Error = g.Err.Error()
	}
	s := g.Snapshot
	if s == nil {
		quiet, _ := m.watch.Observe(g.Rank, perf.Activity{}, now)
		r.Quiet = quiet.Seconds()
		return r
	}
	quiet, waits := m.watch.Observe(g.Rank, s.Activity(), now)
	if r.State = jobs.Running; s.State == perf.Finalized {
		r.State = jobs.Finalized
	}
	r.Quiet, r.Wall, r.MPI = quiet.Seconds(), s.Wall(now).Seconds(), s.Time().Seconds()
	r.Calls, _ = s.Calls()
	for _, o := range s.Ops {
		if o.Op.IsCollective() {
			r.BytesCollective += o.Bytes
		}
	}
	for _, p := range s.Peers {
		r.BytesOut, r.BytesIn = r.BytesOut+p.Out.Bytes, r.BytesIn+p.In.Bytes
	}
	for _, l := range s.Long {
		r.Long = append(r.Long, jobs.LongMessages{Transport: l.Transport.String(), MaxBytes: l.MaxBytes, Protocol: l.Protocol.String(),
			Messages: l.Messages, Bytes: l.Bytes})
	}
	r.Sent, r.Arrived, r.Paused = s.Sent, s.Arrived, s.Paused
	r.Unexpected, r.Posted, r.Done, r.Total = s.Queues.Unexpected, s.Queues.Posted, s.Done, s.Total
	for i, c := range s.Current {
		r.Waits = append(r.Waits, jobs.Wait{Seq: c.Seq, Op: c.Op.String(), Collective: c.Op.IsCollective(), Peer: c.Peer,
			Tag:   c.Tag,
			Where: c.Where, Comm: c.Comm,
			Bytes: c.Bytes, Seconds: waits[i].Seconds()})
	}
	return r
}

// startedPIDs returns the pids of the ranks that were started, in the order of the task's ranks.
func (m *Monitor) startedPIDs() []int {
	if p := m.pids.Load(); p != nil {
		return *p
	}
	return nil
}

// programPID returns the pid of a rank's program: of the process that was started, or of its descendant that has recorded
// something.
func programPID(pid int, s *perf.Snapshot) int {
	if s != nil && s.PID != pid && proctree.IsDescendant(s.PID, pid) {
		return s.PID
	}
	return pid
}

// inspectProcess adds what the kernel knows about a rank's process.
func inspectProcess(r *jobs.Rank, pid int, s *perf.Snapshot) {
	pid = programPID(pid, s)
	r.PID = pid
	p, err := proctree.ReadProcess(pid)
	if err != nil {
		r.State = jobs.Ended
		return
	}
	r.CPU, r.Process = p.CPU.Seconds(), string(p.State)
	switch {
	case p.Stopped():
		r.State = jobs.Stopped
	case p.Exiting:
		r.State = jobs.Ended
	case s == nil:
		if where, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan"); err == nil && string(where) != "0" {
			r.WaitsIn = strings.TrimSpace(string(where))
		}
	}
}
