package rdma

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/verbs"
)

// An endpoint fails in one of two ways. A connection that is broken is made again under the next epoch, and the messages that
// the peer has not acknowledged are sent again. A peer that is down is lost for good: its endpoint ends. Both are only recorded
// where they are noticed, and handled by the next progress: closing the queue pairs polls the completion queues.

// declareDown makes progress end the endpoint with this error.
func (e *endpoint) declareDown(err error) {
	e.d.cm.closing.Fail(e, e.lanes.Messages(), err, true)
	e.d.clock.FastPolls = 0
}

// declareBroken makes progress close the connection, and connect again unless the endpoint was closed.
func (e *endpoint) declareBroken(err error) {
	e.d.cm.closing.Fail(e, e.lanes.Messages(), err, false)
	e.d.clock.FastPolls = 0
}

// handleFailures handles what declareDown and declareBroken have recorded.
func (d *domain) handleFailures() error {
	for { // closing a connection may find others that have failed
		f, ok := d.cm.closing.NextFailure()
		if !ok {
			return d.finishTeardowns()
		}
		e := f.Of
		if f.IsStale(e.lanes.Messages(), e.ended.Load() != nil) {
			continue
		}
		if t := e.tearDown(); f.Down {
			t.Lose(f.Err)
		} else {
			t.Break(f.Err)
		}
	}
}

// peerDown ends an endpoint whose peer is down.
func (e *endpoint) peerDown(err error) {
	lost := e.ended.CompareAndSwap(nil, &endReason{err}) // or it was closed here, and its transfers end all the same
	e.endTransfers(err)
	if lost {
		e.d.events.Put(messages.Event{Kind: fabric.PeerDown, Peer: &e.msgs, Err: err})
	}
	e.d.takeover.ended(e)
	e.release()
}

// release frees the slots of an endpoint that exchanges no more messages. Its queue pairs must be closed.
func (e *endpoint) release() {
	for _, r := range e.unacked {
		e.d.poster.Sends.Give(r.Slot)
	}
	e.unacked = nil
	e.d.recvs.Dismiss(&e.msgs)
	e.conn.Reset()
	e.disconnect = disconnectDone
}

// reconnect asks for a new connection in place of one that broke.
func (d *domain) reconnect(e *endpoint, err error) {
	e.conn.Reset()
	if devices.IsRefusal(err) {
		e.refused(err)
		return
	}
	if e.peerClosing { // the rest of its messages is lost with the connection
		e.peerDown(fmt.Errorf("fabric/rdma: peer %d: %w; the connection broke before its last messages: %w", e.peer,
			fabric.ErrPeerClosed, err))
		return
	}
	e.retry.Rejected = false
	if !e.attemptFailed(fmt.Errorf("the connection broke: %w", err)) {
		return
	}
	if errors.Is(err, verbs.StatusRetryExceeded) {
		d.poster.Mu.Lock()
		e.lanes.Window /= 4
		d.poster.Mu.Unlock()
	}
	// The peer may have been silent before the connection broke. Those intervals count.
	e.retry.silence.Intervals = max(e.retry.silence.Intervals, e.keepalive.Missed)
	e.keepalive.Missed = 0
	if n := e.retry.Failed; n > quickBreaks {
		e.retryLater(liveness.RetryPause(n))
		return
	}
	d.cm.request(e)
}

// retransmit sends messages again over a new connection, apart from those that the peer has received. If the new connection
// fails, it keeps the rest for the next one and returns false.
func (e *endpoint) retransmit(unacked []posting.Request) bool {
	d := e.d
	for i, r := range unacked {
		if int32(r.Seq-e.peerExpects) < 0 {
			d.poster.Sends.Give(r.Slot)
			e.retry.acknowledged(&r)
			continue
		}
		b := d.poster.Sends.Mem(r.Slot)[:r.Bytes]
		if _, err := d.poster.Message(&e.lanes, r, b, posting.ShareAll, false, d.clock.Polls); !e.posted(err) {
			e.unacked = append(e.unacked, unacked[i:]...)
			d.poster.Mu.Lock()
			e.lanes.CanPost = false // a message that is posted now would overtake these
			d.poster.Mu.Unlock()
			e.declareBroken(verbs.ErrState)
			return false
		}
		d.retransmits++
	}
	return true
}
