package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/internal/memaddr"
)

func (e *endpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	return e.transfer(false, dst, local, src, token, transfer.AnyRail)
}

func (e *endpoint) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, token uint64) (bool, error) {
	return e.transfer(true, src, local, dst, token, transfer.AnyRail)
}

func (e *endpoint) transfer(write bool, b []byte, local fabric.Region, at fabric.RemoteKey, token uint64,
	rail int8) (bool, error) {
	if why := e.ended.Load(); why != nil {
		return false, why.err
	}
	d := e.d
	keys, err := d.regions.Cover(local.Local, b)
	if err != nil {
		return false, fmt.Errorf("fabric/rdma: transfer with peer %d: %w", e.peer, err)
	}
	if err := e.checkKey(at); err != nil {
		return false, err
	}
	if e.peer == d.self {
		return true, d.regions.Copy(write, b, at)
	}
	if len(b) == 0 {
		return true, nil
	}
	return false, e.start(&transfer.Op{Token: token, Write: write, Local: memaddr.Of(b), Keys: keys, Bytes: len(b), Rail: rail}, at)
}

// checkKey returns an error unless a key is one of the peer.
func (e *endpoint) checkKey(at fabric.RemoteKey) error {
	if row, rkey := transfer.RowOfKey(at.Key); at.Key != transfer.RemoteKey(e.addr.Incarnation, row, rkey) {
		return fmt.Errorf("fabric/rdma: transfer with peer %d: %#x is not one of its keys", e.peer, at.Key)
	}
	return nil
}

// start starts a transfer: a copy of describe. at names the memory of the peer.
func (e *endpoint) start(describe *transfer.Op, at fabric.RemoteKey) error {
	d := e.d
	d.poster.Mu.Lock()
	if why := e.ended.Load(); why != nil { // again under the lock: peerDown sets it first and then ends the listed transfers
		d.poster.Mu.Unlock()
		return why.err
	}
	d.poster.Begin(&e.lanes, describe, at)
	if !e.lanes.CanPost {
		d.cm.requestLocked(e)
		d.poster.Mu.Unlock()
		return d.sleeper.Wake()
	}
	qps := e.lanes.Queues
	d.poster.Pieces(&e.lanes)
	d.poster.Mu.Unlock()
	if !d.poster.RingsAtOnce() {
		posting.RingAll(qps)
	}
	if d.sleeper.Armed() {
		return d.sleeper.Wake() // Arm may not have asked for completions of sends
	}
	return nil
}

// endOp ends a transfer. The caller must hold the lock of the poster.
func (e *endpoint) endOp(o *transfer.Op, err error) {
	if o.Oldest {
		e.retry.Unfinished.Transfer = false
	}
	e.d.events.Put(messages.Event{Kind: fabric.Done, Peer: &e.msgs, Token: o.Token, Err: err})
	e.d.poster.End(&e.lanes, o)
}

// endTransfers ends all transfers with the peer.
func (e *endpoint) endTransfers(err error) {
	e.d.poster.Mu.Lock()
	defer e.d.poster.Mu.Unlock()
	for o := e.lanes.Ops.First; o != nil; o = e.lanes.Ops.First { // End removes those that have ended
		e.endOp(o, err)
	}
}

// restartTransfers ends the transfers that have failed once the connection was closed, and prepares the others to be posted
// again. The caller must hold the lock of the poster.
func (e *endpoint) restartTransfers() {
	for o := e.lanes.Ops.Failed(); o != nil; o = e.lanes.Ops.Failed() {
		e.endOp(o, o.Err)
	}
	e.lanes.Ops.Restart(len(e.lanes.Queues))
	e.retry.Unfinished.Transfer = !e.lanes.Idle()
}
