package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs"
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

// start starts a transfer with the memory of the peer at at. It copies what describes it.
func (e *endpoint) start(describe *transfer.Op, at fabric.RemoteKey) error {
	d := e.d
	d.mu.Lock()
	if why := e.ended.Load(); why != nil { // again under the lock: peerDown sets it first and then ends the listed transfers
		d.mu.Unlock()
		return why.err
	}
	o := d.transfers.Get()
	*o = *describe
	o.Remote = at.Addr
	o.Row, o.RKeys[0] = transfer.RowOfKey(at.Key)
	d.transfers.Active.Add(1)
	e.ops.Add(o)
	if !e.canPost {
		e.requestConnectLocked()
		d.mu.Unlock()
		return d.sleeper.Wake()
	}
	qps := e.qps
	d.postPieces(e)
	d.mu.Unlock()
	if d.doorbells.atOnce == 0 {
		for _, q := range qps {
			_ = q.qp.Ring() // an error shows in completions
		}
	}
	if d.sleeper.Armed() {
		return d.sleeper.Wake() // Arm may not have asked for completions of sends
	}
	return nil
}

// postPieces posts pieces of transfers while there is room. Doorbells that are system calls are left to the caller, which must
// hold d.mu.
func (d *domain) postPieces(e *endpoint) {
	if !e.canPost {
		return
	}
	for ; e.ops.Unposted != nil; e.ops.Unposted = e.ops.Unposted.Next {
		o := e.ops.Unposted
		if o.Ended {
			continue
		}
		if o.Posted == o.Kept && o.KeyState == transfer.KeysNone && o.Row != transfer.NoRow && e.needsKeys(o) {
			d.readKeys(e, o)
		}
		for o.Posted < o.Bytes {
			q := d.chooseQP(e, o)
			if q == nil || !d.postPiece(q, o) {
				return
			}
		}
	}
}

// postPiece posts the next piece of a transfer. It returns false if the queue pair has failed.
func (d *domain) postPiece(q *queuePair, o *transfer.Op) bool {
	n := min(o.Bytes-o.Posted, q.pacer.Size())
	i := q.rail.Index
	var parts []verbs.SGE
	if o.Sink != nil {
		parts, n = d.scatter.list(q, o, n)
	}
	sge := verbs.SGE{Addr: o.Local + uint64(o.Posted), Len: uint32(n), LKey: o.Keys[i].Local}
	at := verbs.Remote{Addr: o.Remote + uint64(o.Posted), RKey: o.RKeys[i]}
	// Pieces are large: each costs much more than its completion and a doorbell that is a store.
	f := verbs.Signaled | d.doorbells.atOnce
	var err error
	switch {
	case o.Write:
		err = q.qp.Write(q.wrID(q.tail), f, at, sge)
	case o.Sink != nil:
		err = q.qp.Read(q.wrID(q.tail), f, at, parts...)
	default:
		err = q.qp.Read(q.wrID(q.tail), f, at, sge)
	}
	if err != nil {
		return false // the queue pair has failed, and its completions report that
	}
	q.push(request{kind: requestPiece, op: o, bytes: uint32(n)}, f)
	d.inFlight[i]++
	o.Posted += n
	return true
}

// endOp ends a transfer. The caller must hold d.mu.
func (d *domain) endOp(e *endpoint, o *transfer.Op, err error) {
	if o.Oldest {
		e.retry.Unfinished.Transfer = false
	}
	d.events.Put(messages.Event{Kind: fabric.Done, Peer: &e.msgs, Token: o.Token, Err: err})
	e.ops.End(o, &d.transfers)
}

// endTransfers ends all transfers with a peer.
func (d *domain) endTransfers(e *endpoint, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for o := e.ops.First; o != nil; o = e.ops.First {
		for o.Ended {
			o = o.Next
		}
		d.endOp(e, o, err)
	}
}

// restartTransfers ends the transfers that have failed once the connection was closed, and prepares the others to be posted
// again. The caller must hold d.mu.
func (d *domain) restartTransfers(e *endpoint) {
	for o := e.ops.First; o != nil; {
		if o.Err == nil || o.Ended {
			o = o.Next
			continue
		}
		d.endOp(e, o, o.Err)
		o = e.ops.First // endOp may have removed others from the list, also those behind o
	}
	e.ops.Restart(len(e.qps))
	e.retry.Unfinished.Transfer = e.ops.First != nil
}
