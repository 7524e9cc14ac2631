package rdma

import (
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs"
)

// transfers counts the Reads and Writes of a domain that have not ended, and keeps memory for new ones. The endpoints list
// them.
type transfers struct {
	active atomic.Int32 // transfers that have not ended; changed under domain.mu, atomic so that Poll reads it without the lock
	free   *op          // guarded by domain.mu
}

// get returns memory for a new transfer. The caller must hold domain.mu.
func (t *transfers) get() *op {
	o := t.free
	if o == nil {
		return new(op)
	}
	t.free = o.next
	return o
}

// put clears a transfer and keeps its memory. The caller must hold domain.mu.
func (t *transfers) put(o *op) {
	*o = op{next: t.free}
	t.free = o
}

// op is a Read or a Write. Its pieces are posted in order. It is guarded by domain.mu.
type op struct {
	next     *op
	token    uint64
	write    bool
	ended    bool
	oldest   bool        // was first in the list when the last connection ended
	local    uint64      // address of the local memory, unless it is in parts
	sink     fabric.Sink // the local memory of a Read if it is in parts, from byte from on; otherwise nil
	from     int64
	keys     [cm.MaxRails]memoryKeys
	remote   uint64              // address of the peer's memory
	rkeys    [cm.MaxRails]uint32 // by rail; those beyond the first are valid in keysReady
	row      uint16              // of the peer's key table
	rail     int8                // the only rail to use, or anyRail
	bytes    int
	posted   int // bytes of the pieces that were posted
	done     int // bytes of the pieces that have completed
	kept     int // the first bytes, which are not transferred again: they were carried out over connections with one lane
	most     int // done must exceed this to be progress: its largest value when a connection ended; established may reduce it
	keyState keyState
	err      error // the transfer ends with it once the connection is closed
}

// opList lists the transfers of an endpoint, oldest first. It is guarded by domain.mu.
type opList struct {
	first    *op // the oldest that has not ended
	last     *op
	unposted *op // the first one with pieces to post
}

// add appends a transfer.
func (l *opList) add(o *op) {
	if l.last == nil {
		l.first = o
	} else {
		l.last.next = o
	}
	l.last = o
	if l.unposted == nil {
		l.unposted = o
	}
}

// keyState is the state of the keys for the rails beyond the first.
type keyState uint8

const (
	keysNone    keyState = iota // not needed, or not requested yet
	keysReading                 // being read from the peer's key table
	keysReady
)

func (e *endpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	return e.transfer(false, dst, local, src, token, anyRail)
}

func (e *endpoint) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, token uint64) (bool, error) {
	return e.transfer(true, src, local, dst, token, anyRail)
}

func (e *endpoint) transfer(write bool, b []byte, local fabric.Region, at fabric.RemoteKey, token uint64,
	rail int8) (bool, error) {
	if why := e.ended.Load(); why != nil {
		return false, why.err
	}
	d := e.d
	keys, err := d.regions.cover(local.Local, b)
	if err != nil {
		return false, fmt.Errorf("fabric/rdma: transfer with peer %d: %w", e.peer, err)
	}
	if err := e.checkKey(at); err != nil {
		return false, err
	}
	if e.peer == d.self {
		return true, d.regions.copy(write, b, at)
	}
	if len(b) == 0 {
		return true, nil
	}
	return false, e.start(&op{token: token, write: write, local: memaddr.Of(b), keys: keys, bytes: len(b), rail: rail}, at)
}

// checkKey returns an error unless a key is one of the peer.
func (e *endpoint) checkKey(at fabric.RemoteKey) error {
	if at.Key != remoteKey(e.addr.Incarnation, uint16(at.Key>>32), uint32(at.Key)) {
		return fmt.Errorf("fabric/rdma: transfer with peer %d: %#x is not one of its keys", e.peer, at.Key)
	}
	return nil
}

// start starts a transfer with the memory of the peer at at. It copies what describes it.
func (e *endpoint) start(describe *op, at fabric.RemoteKey) error {
	d := e.d
	d.mu.Lock()
	if why := e.ended.Load(); why != nil { // again under the lock: peerDown sets it first and then ends the listed transfers
		d.mu.Unlock()
		return why.err
	}
	o := d.transfers.get()
	*o = *describe
	o.remote, o.row, o.rkeys[0] = at.Addr, uint16(at.Key>>32), uint32(at.Key)
	d.transfers.active.Add(1)
	e.ops.add(o)
	if !e.canPost {
		e.requestConnectLocked()
		d.mu.Unlock()
		return d.waker.wake()
	}
	qps := e.qps
	d.postPieces(e)
	d.mu.Unlock()
	if d.doorbells.atOnce == 0 {
		for _, q := range qps {
			_ = q.qp.Ring() // an error shows in completions
		}
	}
	if d.sleep.armed.Load() {
		return d.waker.wake() // Arm may not have asked for completions of sends
	}
	return nil
}

// postPieces posts pieces of transfers while there is room. Doorbells that are system calls are left to the caller, which must
// hold d.mu.
func (d *domain) postPieces(e *endpoint) {
	if !e.canPost {
		return
	}
	for ; e.ops.unposted != nil; e.ops.unposted = e.ops.unposted.next {
		o := e.ops.unposted
		if o.ended {
			continue
		}
		if o.posted == o.kept && o.keyState == keysNone && o.row != noRow && e.needsKeys(o) {
			d.readKeys(e, o)
		}
		for o.posted < o.bytes {
			q := d.chooseQP(e, o)
			if q == nil || !d.postPiece(q, o) {
				return
			}
		}
	}
}

// postPiece posts the next piece of a transfer. It returns false if the queue pair has failed.
func (d *domain) postPiece(q *queuePair, o *op) bool {
	n := min(o.bytes-o.posted, q.pacer.size())
	i := q.rail.index
	var parts []verbs.SGE
	if o.sink != nil {
		parts, n = d.scatter.list(q, o, n)
	}
	sge := verbs.SGE{Addr: o.local + uint64(o.posted), Len: uint32(n), LKey: o.keys[i].local}
	at := verbs.Remote{Addr: o.remote + uint64(o.posted), RKey: o.rkeys[i]}
	// Pieces are large: each costs much more than its completion and a doorbell that is a store.
	f := verbs.Signaled | d.doorbells.atOnce
	var err error
	switch {
	case o.write:
		err = q.qp.Write(q.wrID(q.tail), f, at, sge)
	case o.sink != nil:
		err = q.qp.Read(q.wrID(q.tail), f, at, parts...)
	default:
		err = q.qp.Read(q.wrID(q.tail), f, at, sge)
	}
	if err != nil {
		return false // the queue pair has failed, and its completions report that
	}
	q.push(request{kind: requestPiece, op: o, bytes: uint32(n)}, f)
	d.inFlight[i]++
	o.posted += n
	return true
}

// endOp ends a transfer. The caller must hold d.mu.
func (d *domain) endOp(e *endpoint, o *op, err error) {
	o.ended = true
	if o.oldest {
		e.retry.Unfinished.Transfer = false
	}
	d.transfers.active.Add(-1)
	d.events.put(queuedEvent{kind: fabric.Done, ep: e, token: o.token, err: err})
	for e.ops.first != nil && e.ops.first.ended {
		o := e.ops.first
		if e.ops.unposted == o {
			e.ops.unposted = o.next
		}
		if e.ops.first = o.next; e.ops.first == nil {
			e.ops.last = nil
		}
		d.transfers.put(o)
	}
}

// endTransfers ends all transfers with a peer.
func (d *domain) endTransfers(e *endpoint, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for o := e.ops.first; o != nil; o = e.ops.first {
		for o.ended {
			o = o.next
		}
		d.endOp(e, o, err)
	}
}

// restartTransfers ends the transfers that have failed once the connection was closed, and prepares the others to be posted
// again. The caller must hold d.mu.
func (d *domain) restartTransfers(e *endpoint) {
	for o := e.ops.first; o != nil; {
		if o.err == nil || o.ended {
			o = o.next
			continue
		}
		d.endOp(e, o, o.err)
		o = e.ops.first // endOp may have removed others from the list, also those behind o
	}
	for o := e.ops.first; o != nil; o = o.next {
		o.oldest = o == e.ops.first
		o.most = max(o.most, o.done)
		switch {
		case o.ended: // it is behind one that has not ended; its memory belongs to its owner again
		case len(e.qps) > 1:
			o.posted, o.done, o.keyState = o.kept, o.kept, keysNone // pieces have completed in any order
		default:
			o.posted, o.kept = o.done, o.done
		}
	}
	e.ops.unposted = e.ops.first
	e.retry.Unfinished.Transfer = e.ops.first != nil
}
