package rdma

import (
	"fmt"
	"iter"
	"slices"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/verbs"
)

// peers are the endpoints of a domain, by the number of the peer. An entry is nil while nothing is known about its peer. The
// methods do what concerns many connections at once. They belong to the goroutine that calls Poll.
type peers []*endpoint

// known returns the endpoints that exist.
func (p peers) known() iter.Seq[*endpoint] {
	return func(yield func(*endpoint) bool) {
		for _, e := range p {
			if e != nil && !yield(e) {
				return
			}
		}
	}
}

// forgetConnected forgets the destinations of all connected peers, which are sent no datagrams. Devices have a limited number of
// address handles.
func (p peers) forgetConnected() {
	for e := range p.known() {
		if e.conn.State == cm.StateEstablished {
			e.addr.Forget()
		}
	}
}

// checkHandles is called when a device has reported a change of a port. The driver may have removed a GID and added it again at
// the same index, as Linux does when a bond uses another of its links. What was made with the old entry sends no more packets,
// although the address has not changed. So handles are renewed before they are used again. All connected peers are probed, which
// breaks the connections that do not work any more; they are made again.
func (p peers) checkHandles() {
	for e := range p.known() {
		e.addr.Outdate()
		e.keepalive.Probe = true
	}
}

// breakConnections makes all connections again.
func (p peers) breakConnections(err error) {
	for e := range p.known() {
		if e.conn.State >= cm.StateREPSent && e.ended.Load() == nil {
			e.declareBroken(err)
		}
	}
}

// leaveRail makes all connections over a rail beyond the first again. They leave it out while it is down.
func (p peers) leaveRail(r *rail, err error) {
	for e := range p.known() {
		if e.ended.Load() == nil && e.lanes.Uses(&r.room) {
			e.declareBroken(err)
		}
	}
}

// returnRail makes all connections again that have left out a rail whose link is up again.
func (p peers) returnRail(r *rail) {
	r.leaveOut(nil, nil)
	for e := range p.known() {
		if e.ended.Load() != nil || r.Index >= len(e.addr.Rails) {
			continue
		}
		e.avoided = e.avoided.WithoutRails(1 << r.Index)
		e.returned |= 1 << r.Index
		if e.lanes.Queues != nil && !e.lanes.Uses(&r.room) {
			e.declareBroken(fmt.Errorf("%w: the link of device %s is up again", errLane, r.Dev.Name()))
		}
	}
}

// stopPosting makes other goroutines post no more requests. It waits for a Read or Write that one of them makes: the lock of the
// poster guards Lanes.CanPost.
func (p peers) stopPosting(poster *posting.Poster) {
	poster.Mu.Lock()
	defer poster.Mu.Unlock()
	for e := range p.known() {
		e.lanes.CanPost = false
	}
}

// stopReceiving makes the devices receive no more messages, so that drainLost finds all, and access no more memory of transfers,
// which end. stopPosting must have been called. It returns the numbers of the rails whose device has not changed the state of a
// queue pair. Nothing else shows whether such a queue pair goes on: an error may mean that the device is lost, or that it works
// and refuses the call.
func (p peers) stopReceiving() (unstopped []int) {
	for e := range p.known() {
		for _, q := range e.lanes.Queues {
			err := q.QP.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState)
			if err != nil && !slices.Contains(unstopped, q.Rail.Index) {
				unstopped = append(unstopped, q.Rail.Index)
			}
		}
	}
	return unstopped
}
