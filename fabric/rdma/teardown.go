package rdma

import (
	"github.com/ibrun/ibrun/fabric/rdma/internal/closing"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
)

// A connection ends in three steps, so that every message that has arrived is received and every receive slot is posted again:
//
//  1. tearDown changes the state of its queue pairs to ERR. The device then flushes what it has not carried out.
//  2. The last completions arrive, see internal/posting/closing.go and internal/closing. Poll goes on meanwhile, and handles them
//     like any others.
//  3. closeConn polls the completion queues until they are empty, and closes the queue pairs.
//
// Devices remove the completions of a queue pair that is closed. Soft-RoCE does not and raises no EventLastWQE, so there the
// third step follows at once.

// tearDown begins to close the connection of an endpoint. e.conn is in cm.StateIdle from then on. The
// caller must not be handling completions: this takes the lock of the poster, which it would hold. If
// the closing has begun already, tearDown returns the existing state. The caller sets why the
// connection is closed. One that cannot be made is torn down at once: its queue pairs must not be
// connected by the next datagram of the peer, which may have arrived already.
func (e *endpoint) tearDown() *closing.Connection[*endpoint] {
	d := e.d
	if e.teardown != nil {
		return e.teardown
	}
	e.countWorked() // before closeConn records what is unfinished; the peer may be the one that has noticed the failure
	e.teardown = d.cm.closing.Begin(e)
	e.msgs.EndReceives()
	d.clock.FastPolls = 0
	e.conn.Reset()
	d.poster.Fail(&e.lanes)
	return e.teardown
}

// finishTeardowns closes the connections whose last completions have arrived, or that have waited for too long.
func (d *domain) finishTeardowns() error {
	l := &d.cm.closing
	if err := d.closeReady(); err != nil || l.Len() == 0 {
		return err
	}
	d.clock.FastPolls = 0
	if l.Step(d.clock.Elapsed()) {
		if err := d.closeReady(); err != nil {
			return err
		}
	}
	d.clock.Schedule(l.StepAt)
	return nil
}

// closeReady closes the connections that need not or must not wait any longer, of those that may have got their last completion.
func (d *domain) closeReady() error {
	for t := d.cm.closing.Next(); t != nil; t = d.cm.closing.Next() {
		if t.IsOverdue() || d.poster.IsFlushed(&t.Of.lanes) {
			if err := d.finishTeardown(t.Of); err != nil {
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
	d.cm.closing.Finish(t)
	switch {
	case t.Down != nil:
		e.peerDown(t.Down)
		return nil
	case e.ended.Load() != nil:
		why := errEndpointClosed.err
		if e.leaving != nil {
			why = errAbandoned.err
		}
		e.endTransfers(why)
		lost := e.disconnect.isPending()
		if e.release(); lost {
			d.disconnectByDatagram(e)
		}
		return nil
	case e.leaving != nil:
		d.takeover.hasLeft(e)
		return nil
	case t.Broken != nil:
		d.reconnect(e, t.Broken)
	}
	if t.REQ == nil {
		return nil
	}
	d.cm.handle(t.REQ)
	if e.conn.State == cm.StateIdle && e.teardown == nil && e.ended.Load() == nil {
		d.cm.request(e) // what was asked for meanwhile
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
	if err := d.completions.drainCQs(); err != nil {
		return err
	}
	for _, q := range qps {
		if err := q.QP.Close(); err != nil {
			if err := d.completions.railLost(d.rails[q.Rail.Index], err); err != nil {
				return err
			}
		}
	}
	if err := d.completions.drainCQs(); err != nil { // once more, for devices that keep the completions of closed queue pairs
		return err
	}
	e.keepUnacked()
	return nil
}

// keepUnacked forgets the queue pairs of a connection, which are closed. It keeps messages that were not acknowledged.
func (e *endpoint) keepUnacked() {
	d := e.d
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
