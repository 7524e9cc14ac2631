package posting

import (
	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/verbs"
)

// Begin adds a transfer: a copy of describe. at names the memory of the peer. Pieces posts the
// transfer.
func (p *Poster) Begin(l *Lanes, describe *transfer.Op, at fabric.RemoteKey) {
	o := p.Transfers.Get()
	*o = *describe
	o.Remote = at.Addr
	o.Row, o.RKeys[0] = transfer.RowOfKey(at.Key)
	p.Transfers.Active.Add(1)
	l.Ops.Add(o)
}

// Pieces posts pieces of transfers while there is room. Doorbells that are system calls are left to
// the caller.
func (p *Poster) Pieces(l *Lanes) {
	if !l.CanPost {
		return
	}
	for ; l.Ops.Unposted != nil; l.Ops.Unposted = l.Ops.Unposted.Next {
		o := l.Ops.Unposted
		if o.Ended {
			continue
		}
		if o.Posted == o.Kept && o.KeyState == transfer.KeysNone && o.Row != transfer.NoRow && l.needsKeys(o) {
			p.readKeys(l, o)
		}
		for o.Posted < o.Bytes {
			q := l.choose(o)
			if q == nil || !p.piece(q, o) {
				return
			}
		}
	}
}

// piece posts the next piece of a transfer. It returns false if the queue pair has failed.
func (p *Poster) piece(q *QueuePair, o *transfer.Op) bool {
	n := min(o.Bytes-o.Posted, q.Pacer.Size())
	i := q.Rail.Index
	var list []verbs.SGE
	if o.Sink != nil {
		list, n = p.parts.entries(q.Rail, o, n)
	}
	sge := verbs.SGE{Addr: o.Local + uint64(o.Posted), Len: uint32(n), LKey: o.Keys[i].Local}
	at := verbs.Remote{Addr: o.Remote + uint64(o.Posted), RKey: o.RKeys[i]}
	// Pieces are large: each costs much more than its completion and a doorbell that is a store.
	f := verbs.Signaled | p.doorbells.atOnce
	var err error
	switch {
	case o.Write:
		err = q.QP.Write(q.nextID(), f, at, sge)
	case o.Sink != nil:
		err = q.QP.Read(q.nextID(), f, at, list...)
	default:
		err = q.QP.Read(q.nextID(), f, at, sge)
	}
	if err != nil {
		return false // the queue pair has failed, and its completions report that
	}
	q.push(Request{Kind: Piece, Op: o, Bytes: uint32(n)}, f)
	o.Posted += n
	return true
}

// readKeys starts to read the keys for the rails beyond the first. Without room for that, the
// transfer uses the first rail only.
func (p *Poster) readKeys(l *Lanes, o *transfer.Op) {
	q := l.Queues[0]
	slot, sge, ok := p.KeyReads.Next()
	if !ok || !q.hasRoom(ShareTransfers) {
		return
	}
	at := verbs.Remote{Addr: l.Keys.Addr + transfer.RowOffset(o.Row), RKey: l.Keys.RKey}
	f := verbs.Signaled | p.doorbells.atOnce
	if q.QP.Read(q.nextID(), f, at, sge) != nil {
		return // the queue pair has failed, and its completions report that
	}
	p.KeyReads.Take()
	q.push(Request{Kind: KeyRead, Op: o, Slot: slot}, f)
	o.KeyState = transfer.KeysReading
}

// End ends a transfer.
func (p *Poster) End(l *Lanes, o *transfer.Op) { l.Ops.End(o, &p.Transfers) }
