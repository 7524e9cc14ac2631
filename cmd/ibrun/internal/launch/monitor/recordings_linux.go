package monitor

import (
	"errors"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// Recordings returns the traces and profiles of this node's ranks, which must have exited.
func (m *Monitor) Recordings() (ranks []tracemerge.Rank, err error) {
	if m.mem == nil || !m.task.Trace && !m.task.Profile {
		return nil, nil
	}
	for i := range m.task.Ranks {
		r := tracemerge.Rank{Rank: m.task.Ranks[i].Rank, Node: m.task.Host}
		var errTrace, errProfile error
		if m.task.Trace {
			r.Trace, errTrace = m.mem.Read(m.mem.TraceOf(i), perf.TraceHead, perf.TraceUsed)
		}
		if m.task.Profile {
			r.Profile, errProfile = m.mem.Read(m.mem.ProfileOf(i), profile.Head, profile.Used)
		}
		err = errors.Join(err, errTrace, errProfile)
		ranks = append(ranks, r)
	}
	return ranks, err
}
