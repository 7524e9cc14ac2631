package rdma

import "fmt"

// leftOut is why connections do without a rail, or without some of its paths, as far as it is known in this process.
type leftOut struct {
	err      error
	ep       *endpoint // only connections to this peer do; nil: all
	reported bool      // the user knows
}

// leaveOut records why connections do without a rail or some of its paths: those to a peer, or all if e is nil. A nil error means
// that they do not any more.
func (r *rail) leaveOut(e *endpoint, err error) { r.leftOut.err, r.leftOut.ep = err, e }

// reportLeftOut tells the user, once for each rail, which devices or paths a new connection does without, and why. If only the
// peer knows why, the peer does.
func (m *connManager) reportLeftOut(e *endpoint) {
	rails := min(len(m.rails), len(e.addr.Rails))
	paths := m.settings.numLanes(rails) / rails
	for _, r := range m.rails[:rails] {
		if l := &r.leftOut; l.err == nil || l.reported || l.ep != nil && l.ep != e {
			continue
		}
		used := 0
		for _, q := range e.lanes.Queues {
			if q.Rail == &r.room {
				used++
			}
		}
		if used < paths {
			r.reportLeftOut(m.report, used, paths)
		}
	}
}

// reportLeftOut tells the user that so many paths of a rail are used, unless the user knows it. report may be nil.
func (r *rail) reportLeftOut(report func(text string), used, paths int) {
	l := &r.leftOut
	if report == nil || l.reported {
		return
	}
	l.reported = true
	if used > 0 {
		report(fmt.Sprintf("RDMA device %s uses %d of %d paths: %v", r.Dev.Name(), used, paths, l.err))
		return
	}
	report(fmt.Sprintf("RDMA device %s is not used, but others are: %v", r.Dev.Name(), l.err))
}
