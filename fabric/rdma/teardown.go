package rdma

import (
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
)

// A connection ends in three steps, so that every message that has arrived is received and every receive slot is posted again:
//
//  1. tearDown changes the state of its queue pairs to ERR. The device then flushes what it has not carried out.
//  2. The last completions arrive, see internal/posting/closing.go. Poll goes on meanwhile, and handles them like any others.
//  3. closeConn polls the completion queues until they are empty, and closes the queue pairs.
//
// Devices remove the completions of a queue pair that is closed. Soft-RoCE does not and raises no EventLastWQE, so there the
// third step follows at once.

// The last completions are waited for until so many steps have begun, half a second altogether. A device that works needs less
// than a millisecond. One that does not raise the event may lose receive slots; the job goes on. A time in which this process
// did not poll counts as one step.
const (
	teardownStep  = 10 * time.Millisecond
	teardownSteps = 50
)

// teardown is the state of a connection between tearDown and closeConn. endpoint.conn is in cm.StateIdle then.
type teardown struct {
	ep       *endpoint
	position int         // in teardowns.all
	steps    int         // that have begun
	broken   error       // why the connection is to be made again, nil if it is not for that reason
	peerDown error       // why the peer is lost, nil if it is not
	req      *cm.Message // the last REQ that has arrived meanwhile, or nil
}

// teardowns holds the connections that are being closed. There may be thousands at the same time, so a Poll looks only at those
// that have got a last completion. All are looked at once in each step.
type teardowns struct {
	all    []*teardown   // in any order
	ready  []*endpoint   // may have got all last completions
	stepAt time.Duration // when the next step begins
}

func (l *teardowns) add(t *teardown) {
	t.position = len(l.all)
	l.all = append(l.all, t)
}

// remove removes a teardown. The last one takes its place.
func (l *teardowns) remove(t *teardown) {
	last := len(l.all) - 1
	l.all[t.position] = l.all[last]
	l.all[t.position].position = t.position
	l.all[last] = nil
	l.all = l.all[:last]
}

// lastCompletion is called when one of the last completions of a connection that is being closed has arrived.
func (l *teardowns) lastCompletion(e *endpoint) { l.ready = append(l.ready, e) }

// tearDown begins to close the connection of an endpoint. If that has begun already, it returns the existing state.
func (d *domain) tearDown(e *endpoint) *teardown {
	if e.teardown != nil {
		return e.teardown
	}
	e.countWorked() // before closeConn records what is unfinished; the peer may be the one that has noticed the failure
	e.teardown = &teardown{ep: e}
	e.msgs.EndReceives()
	d.cm.closing.add(e.teardown)
	d.cm.closing.lastCompletion(e) // if the device keeps completions, or the queue pairs were not connected, there are none
	d.fastPolls = 0
	e.conn.Reset()
	d.poster.Fail(&e.lanes)
	return e.teardown
}

// tearDownBroken begins at once to close a connection that cannot be made: the queue pairs must not be connected by the next
// datagram of the peer, which may have arrived already. The caller must not be handling completions.
func (d *domain) tearDownBroken(e *endpoint, err error) {
	if t := d.tearDown(e); t.broken == nil {
		t.broken = err
	}
}

// finishTeardowns closes the connections whose last completions have arrived, or that have waited for too long.
func (d *domain) finishTeardowns() error {
	l := &d.cm.closing
	for len(l.ready) > 0 {
		last := len(l.ready) - 1
		e := l.ready[last]
		l.ready = l.ready[:last]
		if e.teardown != nil && d.poster.IsFlushed(&e.lanes) {
			if err := d.finishTeardown(e); err != nil {
				return err
			}
		}
	}
	if len(l.all) == 0 {
		return nil
	}
	d.fastPolls = 0
	if now := d.clock.Elapsed(); now >= l.stepAt {
		l.stepAt = now + teardownStep
		if err := d.stepTeardowns(); err != nil {
			return err
		}
	}
	d.clock.Schedule(l.stepAt)
	return nil
}

// stepTeardowns begins a step of all teardowns, and closes the connections that need not or must not wait any longer.
func (d *domain) stepTeardowns() error {
	l := &d.cm.closing
	for i := len(l.all) - 1; i >= 0; i-- { // backwards: the one that takes the place of a removed one had its turn
		if i >= len(l.all) {
			continue
		}
		t := l.all[i]
		if t.steps++; t.steps > teardownSteps || d.poster.IsFlushed(&t.ep.lanes) {
			if err := d.finishTeardown(t.ep); err != nil {
				return err
			}
		}
	}
	return nil
}

// finishTeardown closes the connection of an endpoint, and does what the teardown was for.
func (d *domain) finishTeardown(e *endpoint) error {
	if err := d.closeConn(e); err != nil {
		return err
	}
	t := e.teardown
	e.teardown = nil
	d.cm.closing.remove(t)
	switch {
	case t.peerDown != nil:
		d.peerDown(e, t.peerDown)
		return nil
	case e.ended.Load() != nil:
		why := errEndpointClosed.err
		if e.leaving != nil {
			why = errAbandoned.err
		}
		e.endTransfers(why)
		lost := e.disconnect.isPending()
		if d.releasePeer(e); lost {
			d.disconnectByDatagram(e)
		}
		return nil
	case e.leaving != nil:
		d.hasLeft(e)
		return nil
	case t.broken != nil:
		d.reconnect(e, t.broken)
	}
	if t.req == nil {
		return nil
	}
	if err := d.handleCM(t.req); err != nil {
		return err
	}
	if e.conn.State == cm.StateIdle && e.teardown == nil && e.ended.Load() == nil {
		e.requestConnect() // what was asked for meanwhile
	}
	return nil
}

// closeConn receives everything that has arrived over a connection, and closes its queue pairs. It keeps messages that were not
// acknowledged. tearDown must have been called: otherwise the first message, if it arrives now, would establish the connection.
func (d *domain) closeConn(e *endpoint) error {
	qps := e.lanes.Queues // only this goroutine changes it
	if qps == nil {
		return nil
	}
	if err := d.drainCQs(); err != nil {
		return err
	}
	for _, q := range qps {
		if err := q.QP.Close(); err != nil {
			if err := d.railLost(d.rails[q.Rail.Index], err); err != nil {
				return err
			}
		}
	}
	if err := d.drainCQs(); err != nil { // once more, for devices that keep the completions of closed queue pairs
		return err
	}
	d.keepUnacked(e)
	return nil
}

// keepUnacked forgets the queue pairs of a connection, which are closed. It keeps messages that were not acknowledged.
func (d *domain) keepUnacked(e *endpoint) {
	if e.lanes.Queues == nil {
		return
	}
	d.poster.Mu.Lock()
	unacked := d.poster.Detach(&e.lanes)
	e.unacked = append(unacked, e.unacked...) // those of earlier connections have not been sent again yet
	u := &e.retry.Unfinished
	if u.Message = len(e.unacked) > 0; u.Message {
		u.Seq = e.unacked[0].Seq
	}
	e.restartTransfers()
	e.lanes.Forget()
	d.poster.Mu.Unlock()
	e.rtuDue, e.msgs.In.ControlUnacked = false, false
	d.recvs.Detach(&e.msgs)
}
