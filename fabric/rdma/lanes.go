package rdma

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/verbs"
)

// A connection consists of lanes. Each is a queue pair on one rail that takes one path through the network: packets of one queue
// pair take one path, so that they stay in order. The first lane is path 0 of the first rail. It carries the messages, and pieces
// of transfers as all others do.
//
// Paths are distinguished by the LIDs of the ports on InfiniBand (LMC), and by the flow label on RoCE, from which adapters derive
// the UDP source port. Switches choose a link by it, and bonded adapters (LAG) choose a port by it or by the queue pair.
//
// A REQ lists the lanes of its sender. The REP lists those of them that the other side has too, and only these are connected. So
// each side leaves out what does not work: rails that are lost or whose link is down, and lanes over which the connection has
// broken (see avoid). The connection is made again without them, and what was in flight on them is sent over the others. Only the
// first lane cannot be left out.

// avoidTime is how long a lane that has broken is left out of new connections.
const avoidTime = time.Minute

// numLanes returns how many lanes a connection over so many rails has.
func (s *Settings) numLanes(rails int) int { return rails * min(s.Paths, cm.MaxLanes/rails) }

// lanesTo returns the lanes of the next connection to a peer, those of the first rail first. offered is that of cm.Lanes.
func (m *connManager) lanesTo(e *endpoint, offered []cm.QP) []cm.Lane {
	if m.clock.Elapsed() >= e.avoidUntil {
		e.avoided = 0
	}
	rails := min(len(m.rails), len(e.addr.Rails))
	return cm.Lanes(rails, m.settings.numLanes(rails)/rails, offered, func(l cm.Lane) bool {
		return m.rails[l.Rail].isDown() || e.avoided.Has(l)
	})
}

// isDown reports whether new connections leave out the rail.
func (r *rail) isDown() bool { return r.room.Lost || r.portDown }

// avoid leaves a lane out of the next connections, because this one has broken over it. On rails beyond the first, that means all
// lanes of the rail. It returns the error of the connection.
func (e *endpoint) avoid(q *posting.QueuePair, err error) error {
	if q.IsMessages() {
		return err
	}
	lanes := q.Info.Lane.Bit()
	if q.Rail.Index > 0 {
		lanes = cm.OfRail(uint8(q.Rail.Index))
	}
	r := e.d.rails[q.Rail.Index]
	r.leaveOut(e, err)
	e.avoided |= lanes
	e.avoidUntil = e.d.clock.Elapsed() + avoidTime
	return fmt.Errorf("%w, device %s, path %d: %v", errLane, r.Dev.Name(), q.Info.Lane.Path, err)
}

// errLane is why a connection is made again if a lane other than the first has broken. It does not wrap the error of the lane,
// which says nothing about the others.
var errLane = fmt.Errorf("fabric/rdma: %w: one of several queue pairs", verbs.ErrState)

// isLaneError reports whether a completion with an error means that the path does not work. A queue pair also fails because the
// peer has closed the connection, but then requests on the first lane fail too, or the peer connects again.
func isLaneError(s verbs.Status) bool {
	return s == verbs.StatusRetryExceeded || s == verbs.StatusLocalQPOperation || s == verbs.StatusFatal
}

// returnLanes makes a connection again that has left out lanes for avoidTime, unless transfers are in progress. It reports
// whether it does.
func (d *domain) returnLanes(e *endpoint) bool {
	if e.avoided == 0 || d.clock.Now < e.avoidUntil {
		return false
	}
	d.poster.Mu.Lock()
	transferring := !e.lanes.Idle()
	d.poster.Mu.Unlock()
	if transferring {
		return false
	}
	e.avoided = 0
	e.declareBroken(fmt.Errorf("%w: lanes that were left out are tried again", errLane))
	return true
}
