//go:build unix

package verbstest

import (
	"encoding/binary"
	"slices"
	"syscall"

	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// NewSimulatedAdapters returns a network whose devices behave like hardware adapters in what the specification leaves open:
//
//   - A completion is late: it is in its queue only after so many polls of the queue as delay returns, or when an event is
//     requested. Completions of one queue stay in order.
//   - A queue pair that enters the error state may flush a receive that it has taken from its shared receive queue: it does so
//     when delay returns an odd number. Then it raises [verbs.EventLastWQE], after the last completion of a receive.
//   - A doorbell is not a system call.
//   - Completions of a queue pair that is closed are removed, also late ones. A receive of the shared receive queue that was
//     taken is lost with its completion.
func NewSimulatedAdapters(delay func() int) *SimulatedNetwork {
	n := NewSimulatedNetwork()
	n.delay = delay
	return n
}

// lateWC is a completion that is not in its queue yet.
type lateWC struct {
	wc    ib.WC
	polls int // until it is
}

// releaseLate adds late completions to the queue that are due, or all. The caller must hold the mutex of the network.
func (c *simCQ) releaseLate(all bool) {
	released := false
	for len(c.late) > 0 && (all || c.late[0].polls <= 0) {
		c.insert(c.late[0].wc)
		c.late, released = c.late[1:], true
	}
	if len(c.late) > 0 {
		c.late[0].polls--
	}
	if released {
		for _, q := range c.net.qps {
			q.raiseLastWQE()
		}
	}
}

// flushShared flushes a receive that a queue pair of an adapter has taken from its shared receive queue. The caller must hold
// the mutex of the network.
func (q *simQP) flushShared() {
	n := q.ownRecvs.net
	if n.delay == nil || !q.srq || !q.connected || q.lastWQE || len(q.recvs.posted) == 0 || n.delay()%2 == 0 {
		return
	}
	r := q.recvs.posted[0]
	q.recvs.posted = slices.Delete(q.recvs.posted, 0, 1)
	q.recvCQ.addCompletion(ib.WC{ID: r.ID, Status: uint32(verbs.StatusFlushed), QPN: q.num})
}

// raiseLastWQE raises [verbs.EventLastWQE] once the completions of all receives are in their queue. The caller must hold the
// mutex of the network.
func (q *simQP) raiseLastWQE() {
	if q.ownRecvs.net.delay == nil || q.state != verbs.StateErr || !q.srq || !q.connected || q.lastWQE ||
		slices.ContainsFunc(q.recvCQ.late, func(l lateWC) bool { return l.wc.QPN == q.num }) {
		return
	}
	q.lastWQE = true
	q.dev.raise(verbs.EventLastWQE, q.Token())
}

// removeCompletions removes the completions of a queue pair of an adapter. The caller must hold the mutex of the network.
func (q *simQP) removeCompletions() {
	if q.ownRecvs.net.delay == nil {
		return
	}
	for _, c := range []*simCQ{q.sendCQ, q.recvCQ} {
		c.wcs = slices.DeleteFunc(c.wcs, func(wc ib.WC) bool { return wc.QPN == q.num })
		c.late = slices.DeleteFunc(c.late, func(l lateWC) bool { return l.wc.QPN == q.num })
	}
}

// raise raises an asynchronous event. The caller must hold the mutex of the network.
func (d *simDevice) raise(t verbs.EventType, element uint64) {
	b := binary.NativeEndian.AppendUint64(nil, element)
	b = binary.NativeEndian.AppendUint32(b, uint32(t))
	b = binary.NativeEndian.AppendUint32(b, 0)
	if _, err := syscall.Write(d.async.pipe[1], b); err != nil {
		panic("verbstest: raise an event: " + err.Error())
	}
}

// addOpen lists an open device.
func (n *SimulatedNetwork) addOpen(d *simDevice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = append(n.open, d)
}

// removeOpen undoes addOpen.
func (n *SimulatedNetwork) removeOpen(d *simDevice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = slices.DeleteFunc(n.open, func(o *simDevice) bool { return o == d })
	n.qps = slices.DeleteFunc(n.qps, func(q *simQP) bool { return q.dev == d }) // those that it has refused to close
	n.busy = slices.DeleteFunc(n.busy, func(q *simQP) bool { return q.dev == d })
}

// RaiseEvent raises an asynchronous event of the first port of a device, at every process that has it open.
func (n *SimulatedNetwork) RaiseEvent(device string, t verbs.EventType) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.open {
		if d.name == device {
			d.raise(t, 1)
		}
	}
}

// RemoveDevice removes a device that is open: its queue pairs vanish, [verbs.EventDeviceFatal] is raised, and calls that create,
// change or query something fail with EIO from then on, also before the event is read. A device of this name that is opened later
// is another one.
func (n *SimulatedNetwork) RemoveDevice(device string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.qps = slices.DeleteFunc(n.qps, func(q *simQP) bool { return q.dev.name == device })
	n.busy = slices.DeleteFunc(n.busy, func(q *simQP) bool { return q.dev.name == device })
	for _, d := range n.open {
		if d.name == device {
			d.removed = true
			d.raise(verbs.EventDeviceFatal, 0)
		}
	}
}

// SharedReceives returns how many receives are posted to each shared receive queue, in order of creation.
func (n *SimulatedNetwork) SharedReceives() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	var posted []int
	for _, s := range n.srqs {
		posted = append(posted, len(s.posted))
	}
	return posted
}
