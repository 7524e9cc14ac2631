package verbs

import (
	"errors"
	"sync"

	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
)

// SGE is an entry of a scatter/gather list: a piece of a memory region. [MR.SGE] makes it.
type SGE struct {
	Addr uint64
	Len  uint32
	LKey uint32
}

// Remote is memory of the peer: an address within a region or window, and the key that allows the access. [MR.Remote] makes it.
type Remote struct {
	Addr uint64
	RKey uint32
}

// Dest is where a datagram goes. [QP.Dest] makes it of a peer's address.
type Dest struct {
	AH        *AH
	QPN, QKey uint32
}

// Request is a request for a send queue with everything that there is; the methods of [QP] named after operations are shorter.
type Request struct {
	Op    Opcode
	ID    uint64
	Flags Flags

	SGE    []SGE  // the memory that is sent or written, or read and swapped into
	Inline []byte // sent or written in place of SGE; free for reuse at once

	Imm     uint32 // of OpSendImm and OpWriteImm
	Key     uint32 // of OpSendInvalidate a key of the peer's, of OpLocalInvalidate one of ours
	Remote  Remote // of writes, reads and atomics
	Compare uint64 // of OpCompareSwap; of OpFetchAdd what is added
	Swap    uint64
	To      Dest // of datagrams
}

// sendQueue is the verbs side of a send queue.
type sendQueue struct {
	mu      sync.Mutex // guards the rest, and is held during ib.Post
	state   sendState
	allowed opcodes
	longest uint64 // message in bytes
	unrung  bool   // something was posted since the last doorbell

	// A request is copied here, but for the data if it goes straight into the queue, so that what the caller passes need not be
	// in the heap.
	wr     ib.SendWR
	sge    []ib.SGE
	inline []byte
}

type sendState uint8

const (
	sendNotReady sendState = iota // before RTS
	sendOpen
	sendClosed
	sendLost // with the device
)

// opcodes is a set of Opcode.
type opcodes uint32

// sends are the operations that each transport has.
var sends = [...]opcodes{
	RC: 1<<OpWrite | 1<<OpWriteImm | 1<<OpSend | 1<<OpSendImm | 1<<OpRead | 1<<OpCompareSwap | 1<<OpFetchAdd |
		1<<OpLocalInvalidate | 1<<OpBindMW | 1<<OpSendInvalidate,
	UC: 1<<OpWrite | 1<<OpWriteImm | 1<<OpSend | 1<<OpSendImm | 1<<OpLocalInvalidate | 1<<OpBindMW | 1<<OpSendInvalidate,
	UD: 1<<OpSend | 1<<OpSendImm,
}

// Post queues a request. The device sees it at the next Ring; until it completes, the memory that it names belongs to the
// device. [ErrFull] says that the queue has no room until something completes, [ErrState] that the pair is not ready to
// send, and [ErrInvalid] that the request makes no sense; nothing is queued then. The request may be reused at once.
//
// With the flag [RingDoorbell] the error can also be one of Ring, whose [Error.Post] is false: then the request was queued,
// unless [Error.Dropped] counts it. If the request itself is refused, the doorbell is not rung: call Ring before waiting
// for space in the queue.
func (q *QP) Post(r *Request) error {
	imm := r.Imm
	switch r.Op {
	case OpSendImm, OpWriteImm:
		imm = wire32(imm)
	case OpSendInvalidate, OpLocalInvalidate:
		imm = r.Key
	case OpBindMW:
		return q.refusePost(r.Op, r.ID, ErrInvalid, "windows are bound by BindMW")
	}
	if q.cfg.Type == UD {
		handle, err := q.toward(r.Op, r.ID, r.To)
		if err != nil {
			return err
		}
		defer handle.leave()
	} else {
		q.send.mu.Lock()
	}
	w := &q.send.wr
	w.Imm, w.Remote, w.RKey, w.Compare, w.Swap = imm, r.Remote.Addr, r.Remote.RKey, r.Compare, r.Swap
	if len(r.Inline) > 0 {
		return q.bytes(r.Op, r.ID, r.Flags, r.Inline)
	}
	return q.list(r.Op, r.ID, r.Flags, r.SGE)
}

// Send queues a SEND of the memory that the list names. See Post for the errors of all that queue something.
func (q *QP) Send(id uint64, f Flags, sge ...SGE) error {
	q.send.mu.Lock()
	return q.list(OpSend, id, f, sge)
}

// SendImm is Send with four bytes that the receiver finds in its completion.
func (q *QP) SendImm(id uint64, f Flags, imm uint32, sge ...SGE) error {
	q.send.mu.Lock()
	q.send.wr.Imm = wire32(imm)
	return q.list(OpSendImm, id, f, sge)
}

// SendInvalidate is Send that also takes back a key of the receiver's.
func (q *QP) SendInvalidate(id uint64, f Flags, rkey uint32, sge ...SGE) error {
	q.send.mu.Lock()
	q.send.wr.Imm = rkey
	return q.list(OpSendInvalidate, id, f, sge)
}

// SendInline is Send of bytes that are copied into the queue: they need no registration, and may be reused at once.
func (q *QP) SendInline(id uint64, f Flags, data []byte) error {
	q.send.mu.Lock()
	return q.bytes(OpSend, id, f, data)
}

// SendTo queues a datagram.
func (q *QP) SendTo(id uint64, f Flags, to Dest, sge ...SGE) error {
	handle, err := q.toward(OpSend, id, to)
	if err != nil {
		return err
	}
	err = q.list(OpSend, id, f, sge)
	handle.leave()
	return err
}

// Write queues a WRITE into the peer's memory.
func (q *QP) Write(id uint64, f Flags, to Remote, sge ...SGE) error {
	q.lockAt(to)
	return q.list(OpWrite, id, f, sge)
}

// WriteImm is Write that also takes a receive of the peer's, whose completion has the four bytes.
func (q *QP) WriteImm(id uint64, f Flags, imm uint32, to Remote, sge ...SGE) error {
	q.lockAt(to)
	q.send.wr.Imm = wire32(imm)
	return q.list(OpWriteImm, id, f, sge)
}

// WriteInline is Write of bytes that are copied into the queue, as SendInline does.
func (q *QP) WriteInline(id uint64, f Flags, to Remote, data []byte) error {
	q.lockAt(to)
	return q.bytes(OpWrite, id, f, data)
}

// Read queues a READ of the peer's memory into the memory that the list names.
func (q *QP) Read(id uint64, f Flags, from Remote, sge ...SGE) error {
	q.lockAt(from)
	return q.list(OpRead, id, f, sge)
}

// CompareSwap queues an atomic operation on eight bytes of the peer's memory, aligned to eight: if they are equal to
// compare they become swap. What they were before is written to old, which has eight bytes. Numbers are in host order.
func (q *QP) CompareSwap(id uint64, f Flags, at Remote, compare, swap uint64, old SGE) error {
	q.lockAt(at)
	q.send.wr.Compare, q.send.wr.Swap = compare, swap
	one := [1]SGE{old}
	return q.list(OpCompareSwap, id, f, one[:])
}

// FetchAdd is CompareSwap that adds.
func (q *QP) FetchAdd(id uint64, f Flags, at Remote, add uint64, old SGE) error {
	q.lockAt(at)
	q.send.wr.Compare = add
	one := [1]SGE{old}
	return q.list(OpFetchAdd, id, f, one[:])
}

// LocalInvalidate queues the end of a key of ours: of a memory window of type 2.
func (q *QP) LocalInvalidate(id uint64, f Flags, rkey uint32) error {
	q.send.mu.Lock()
	q.send.wr.Imm = rkey
	return q.list(OpLocalInvalidate, id, f, nil)
}

// BindMW queues the binding of a memory window to n bytes of a region from offset off on, and returns the key by which
// peers can name the window once the request has completed. Zero bytes unbind a window of type 1. The region needs the
// right BindMW.
//
// A window of type 2 belongs to the pair: from here on [QP.Close] is [ErrBusy] until the window is bound to another pair or
// closed, also if it was invalidated since, which only the device knows. With [RingDoorbell] an error of Ring comes together
// with a key.
func (q *QP) BindMW(id uint64, f Flags, mw *MW, mr *MR, off, n int, access Access) (rkey uint32, err error) {
	at := mr.Remote(off)
	mr.SGE(off, n)                                  // panics if they are not in the region
	for _, b := range []*base{&mw.base, &mr.base} { // neither is closed meanwhile
		if err := q.borrow(b, OpBindMW, id); err != nil {
			return 0, err
		}
		defer b.leave()
	}
	var holder []*base
	if mw.typ == MWType2 {
		holder = []*base{&q.base}
	}
	if err := q.ctx.hold("bind a memory window", holder); err != nil {
		return 0, q.refusePost(OpBindMW, id, kindOf(err), "")
	}
	defer q.ctx.building.Done()
	q.send.mu.Lock()
	// The key consists of an index and eight bits that change with each binding.
	next := mw.ib.RKey()&^0xff | (mw.ib.RKey()+1)&0xff
	q.send.wr.Imm = 0 // libibverbs refuses others
	q.send.wr.Bind = ib.Bind{MW: mw.ib, RKey: next, MR: mr.ib, Addr: at.Addr, Length: uint64(n), Access: uint32(access)}
	err = q.list(OpBindMW, id, f&^RingDoorbell, nil)
	q.send.mu.Lock()
	q.send.wr.Bind = ib.Bind{} // so that nothing is kept
	q.send.mu.Unlock()
	if err != nil {
		q.ctx.release(holder)
		return 0, err
	}
	mw.heldBy(holder)
	if f&RingDoorbell != 0 {
		err = q.Ring()
	}
	return mw.ib.RKey(), err
}

// borrow keeps something that a request names from being closed, until b.leave.
func (q *QP) borrow(b *base, op Opcode, id uint64) error {
	if b.ctx != q.ctx {
		return q.refusePost(op, id, ErrInvalid, "the %v belongs to another open device, %s", b, b.ctx.name)
	}
	b.calls.RLock()
	if b.closed {
		b.calls.RUnlock()
		return q.refusePost(op, id, ErrClosed, "the %v", b)
	}
	return nil
}

// toward takes the lock for a datagram. The handle is not closed before it is left.
func (q *QP) toward(op Opcode, id uint64, to Dest) (handle *base, err error) {
	if to.AH == nil {
		return nil, q.refusePost(op, id, ErrInvalid, "a datagram needs an address handle")
	}
	if err := q.borrow(&to.AH.base, op, id); err != nil {
		return nil, err
	}
	q.send.mu.Lock()
	q.send.wr.AH, q.send.wr.QPN, q.send.wr.QKey = to.AH.ib, to.QPN, to.QKey
	return &to.AH.base, nil
}

// lockAt takes the lock for a request that names memory of the peer.
func (q *QP) lockAt(at Remote) {
	q.send.mu.Lock()
	q.send.wr.Remote, q.send.wr.RKey = at.Addr, at.RKey
}

const (
	// inlineFlag is IBV_SEND_INLINE. Users do not see it: they give bytes in place of a list.
	inlineFlag Flags = 1 << 3

	atomics = opcodes(1<<OpCompareSwap | 1<<OpFetchAdd)
)

// list queues a request with a list. The caller has taken the lock and filled in what the operation needs besides; list gives the
// lock back.
func (q *QP) list(op Opcode, id uint64, f Flags, sge []SGE) error {
	s := &q.send
	if s.state != sendOpen || s.allowed>>op&1 == 0 || len(sge) > len(s.sge) {
		return q.whyNot(op, id, len(sge), 0)
	}
	total := uint64(0)
	for i := range sge {
		total += uint64(sge[i].Len)
	}
	if total > s.longest || atomics>>op&1 != 0 && (len(sge) != 1 || total != 8 || s.wr.Remote%8 != 0) {
		return q.whyNotSize(op, id, total)
	}
	s.wr.ID, s.wr.Opcode, s.wr.Flags = id, uint32(op), uint32(f&^RingDoorbell)
	if q.soft != nil {
		if !q.soft.List(&s.wr, castSGE(sge), uint32(total)) {
			return q.failPost(op, id, ib.ErrFull)
		}
	} else {
		if len(sge) == 1 && len(s.wr.SGE) == 1 { // most have one, and copy is a call
			s.wr.SGE[0] = ib.SGE(sge[0])
		} else {
			s.wr.SGE = s.sge[:copy(s.sge, castSGE(sge))]
		}
		if err := q.ib.Post(&s.wr); err != nil {
			return q.failPost(op, id, err)
		}
	}
	if f&RingDoorbell != 0 {
		return q.ring()
	}
	s.unrung = true
	s.mu.Unlock()
	return nil
}

// bytes is list with bytes in place of a list.
func (q *QP) bytes(op Opcode, id uint64, f Flags, data []byte) error {
	s := &q.send
	if s.state != sendOpen || s.allowed>>op&1 == 0 || len(data) > len(s.inline) {
		return q.whyNot(op, id, 0, len(data))
	}
	if uint64(len(data)) > s.longest || atomics>>op&1 != 0 {
		return q.whyNotSize(op, id, uint64(len(data)))
	}
	s.wr.ID, s.wr.Opcode, s.wr.Flags = id, uint32(op), uint32(f&^RingDoorbell|inlineFlag)
	if q.soft != nil {
		if !q.soft.Inline(&s.wr, data) {
			return q.failPost(op, id, ib.ErrFull)
		}
	} else {
		s.wr.Inline = s.inline[:copy(s.inline, data)]
		if err := q.ib.Post(&s.wr); err != nil {
			return q.failPost(op, id, err)
		}
	}
	if f&RingDoorbell != 0 {
		return q.ring()
	}
	s.unrung = true
	s.mu.Unlock()
	return nil
}

// Ring tells the device of everything that was posted. Several requests for one Ring cost less than a Ring for each. After
// an error the next Ring tries again, but not for [Error.Dropped] requests, the last that were posted: those do not complete.
func (q *QP) Ring() error {
	s := &q.send
	s.mu.Lock()
	if s.state >= sendClosed {
		kind := q.ended()
		s.mu.Unlock()
		return q.refuse("ring", kind, "")
	}
	if !s.unrung {
		s.mu.Unlock()
		return nil
	}
	return q.ring()
}

// ring tells the device. The caller has taken the lock and found the pair open; ring gives the lock back.
func (q *QP) ring() error {
	s := &q.send
	s.unrung = false
	if q.soft == nil {
		err := q.ib.Ring()
		s.mu.Unlock()
		if err != nil {
			return q.fail("ring", err)
		}
		return nil
	}
	q.soft.Publish()
	s.mu.Unlock()
	if err := q.soft.Doorbell(); err != nil {
		s.mu.Lock()
		s.unrung = true
		s.mu.Unlock()
		return q.fail("ring", err)
	}
	return nil
}

// Recv queues a receive: a message goes into the memory that the list names and makes a completion with this ID. The device
// sees it at once. Messages of datagrams begin with 40 bytes that belong to the device. The errors are those of Post.
func (q *QP) Recv(id uint64, sge ...SGE) error { return q.recv.post(id, sge) }

// looks is with how many receives the state of a queue pair is looked at after a request of it has failed. In general the pair
// fails with it, just before or just after the completion. But the completion may be of an earlier pair that had its number.
const looks = 100

// doubt has the state be looked at, now for the receives that are posted, and with each that follows.
func (q *QP) doubt() {
	q.recv.mu.Lock()
	first := q.recv.doubt == 0 && q.recv.open && !q.recv.shared
	if q.recv.open {
		q.recv.doubt = looks
	}
	q.recv.mu.Unlock()
	if first {
		q.flushReceives()
	}
}

// flushReceives has the device flush receives that were posted after the pair had gone into the state of errors: rxe looks at
// the receives only when it enters that state. Into which it goes by itself, so it is asked; if it is in another one it has not
// failed yet, and flushes them when it does.
func (q *QP) flushReceives() {
	if q.enter("flush") != nil {
		return
	}
	defer q.leave()
	q.control.Lock() // no other change of state meanwhile
	defer q.control.Unlock()
	now, err := q.ib.Query(uint32(AttrState))
	if err != nil {
		return // the device is gone, which its event tells
	}
	if State(now.State) == StateErr {
		attr := ib.QPAttr{State: uint8(StateErr)}
		q.ib.Modify(&attr, uint32(AttrState)) // fails only as Query does
		return
	}
	q.recv.mu.Lock()
	q.recv.doubt = max(q.recv.doubt-1, 0)
	q.recv.mu.Unlock()
}

// recvQueue is the verbs side of a receive queue, shared or not.
type recvQueue struct {
	base   *base
	pair   *QP        // nil if the queue is a shared one
	mu     sync.Mutex // guards the rest, and is held during ib.Recv
	ib     interface{ Recv(uint64, []ib.SGE) error }
	soft   *rxe.RecvQueue // of ib, if that is the provider: receives go straight into it
	open   bool
	closed bool
	doubt  int      // of so many receives the pair may have failed before they were posted
	lost   bool     // with the device
	shared bool     // the pair has an SRQ in place of it
	sge    []ib.SGE // a list that does not go straight into the queue is copied here, so that what is passed need not be in the heap
}

func (r *recvQueue) post(id uint64, sge []SGE) error {
	r.mu.Lock()
	if !r.open || r.shared || len(sge) > len(r.sge) {
		return r.whyNot(id, len(sge))
	}
	var err error
	if r.soft != nil {
		if !r.soft.Put(id, castSGE(sge)) {
			err = ib.ErrFull
		}
	} else {
		if len(sge) == 1 { // most have one, and copy is a call
			r.sge[0] = ib.SGE(sge[0])
		} else {
			copy(r.sge, castSGE(sge))
		}
		err = r.ib.Recv(id, r.sge[:len(sge)])
	}
	if err != nil || r.doubt > 0 {
		return r.fail(id, err)
	}
	r.mu.Unlock()
	return nil
}

// whyNot says why a receive is refused. Like fail it gives back the lock, which the caller holds.
func (r *recvQueue) whyNot(id uint64, sge int) error {
	defer r.mu.Unlock()
	e := &Error{Op: "post a receive", Device: r.base.ctx.name, ID: id, Post: true, Kind: ErrInvalid}
	r.base.name(e)
	switch {
	case r.shared:
		e.Detail = "the pair takes its receives from a shared receive queue"
	case r.lost:
		e.Kind = ErrDeviceLost
	case r.closed || r.base.kind == kindSRQ && !r.open:
		e.Kind = ErrClosed
	case !r.open:
		e.Kind, e.Detail = ErrState, "it is in RESET, and receives need INIT"
	default:
		e.Detail = detail("%d entries in the list, and the queue was made for %d", sge, len(r.sge))
	}
	return e
}

// fail is what follows a receive that the provider refused, or that is of a pair which may have failed before.
func (r *recvQueue) fail(id uint64, err error) error {
	r.mu.Unlock()
	if err == nil {
		r.pair.flushReceives()
		return nil
	}
	e := &Error{Op: "post a receive", Device: r.base.ctx.name, ID: id, Post: true, Kind: kindOf(err), Err: err}
	if errors.Is(err, ib.ErrFull) {
		e.Kind, e.Err = ErrFull, nil
	}
	return r.base.name(e)
}
