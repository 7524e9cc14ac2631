package verbs

import (
	"sync/atomic"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// SGE is an entry of a scatter/gather list: a part of a memory region. [MR.SGE] returns one.
type SGE struct {
	Addr uint64
	Len  uint32
	LKey uint32
}

// Remote is memory of the peer: an address within a region or window, and the key that allows the access. [MR.Remote] returns
// one.
type Remote struct {
	Addr uint64
	RKey uint32
}

// Dest is the destination of a datagram. [QP.Dest] returns that of a peer's address.
type Dest struct {
	AH        *AH
	QPN, QKey uint32
}

// Request is a request for a send queue with all fields that any operation has. The methods of [QP] named after operations
// are shorter.
type Request struct {
	Op    Opcode
	ID    uint64
	Flags Flags

	SGE    []SGE  // the memory that is sent or written, or into which a READ or an atomic operation writes
	Inline []byte // sent or written in place of SGE; it may be reused when the post returns

	Imm     uint32 // OpSendImm and OpWriteImm: immediate data
	Key     uint32 // OpSendInvalidate: a key of the peer; OpLocalInvalidate: a key of this process
	Remote  Remote // writes, reads and atomic operations
	Compare uint64 // OpCompareSwap: the value to compare with; OpFetchAdd: the addend
	Swap    uint64 // OpCompareSwap: the new value
	To      Dest   // datagrams
}

// sendQueue is the part of a send queue that belongs to package verbs. Its methods are those of QP. Mind its size: with eight
// bytes more, a QP takes the next size of the heap, which is larger by 128.
type sendQueue struct {
	queueLock // guards the other fields, and is held during ib.QP.Post

	// state is written with queueLock.mu held. It is atomic because posts to a serialized pair read it without the mutex, while the
	// event of a lost device writes it.
	state           atomicState
	supported       opcodeSet
	doorbellPending bool   // something was posted since the last doorbell
	maxMessage      uint64 // in bytes

	// A request is copied to these fields, so that what the caller passes need not be in the heap. With a ring (QP.sendRing) the
	// list and the inline data are written directly into a slot.
	wr     ib.SendWR
	sge    []ib.SGE
	inline []byte
}

type sendState = uint32

// atomicState holds a sendState.
type atomicState = atomic.Uint32

const (
	sendNotReady sendState = iota // before RTS
	sendReady
	sendClosed
	sendDeviceLost
)

// opcodeSet is a set of Opcode.
type opcodeSet uint32

// sendOpcodes are the operations of each transport.
var sendOpcodes = [...]opcodeSet{
	RC: 1<<OpWrite | 1<<OpWriteImm | 1<<OpSend | 1<<OpSendImm | 1<<OpRead | 1<<OpCompareSwap | 1<<OpFetchAdd |
		1<<OpLocalInvalidate | 1<<OpBindMW | 1<<OpSendInvalidate,
	UC: 1<<OpWrite | 1<<OpWriteImm | 1<<OpSend | 1<<OpSendImm | 1<<OpLocalInvalidate | 1<<OpBindMW | 1<<OpSendInvalidate,
	UD: 1<<OpSend | 1<<OpSendImm,
}

const (
	// inlineFlag is IBV_SEND_INLINE. It is not exported: callers pass bytes in place of a list.
	inlineFlag Flags = 1 << 3

	atomicOpcodes = opcodeSet(1<<OpCompareSwap | 1<<OpFetchAdd)
)

// Post queues a request. The device sees it at the next Ring. Until the request completes, the memory that it names belongs to
// the device. The error is [ErrFull] if the queue has no space until something completes, [ErrState] if the pair is not ready
// to send, and [ErrInvalid] if the request is invalid. Nothing is queued then. The Request may be reused when Post returns.
//
// With the flag [RingDoorbell] the error can also be one of Ring, whose [Error.Post] is false: then the request was queued,
// unless [Error.Dropped] counts it. If the request itself is refused, the doorbell is not rung: call Ring before waiting
// for space in the queue.
func (q *QP) Post(r *Request) error {
	imm := r.Imm
	switch r.Op {
	case OpSendImm, OpWriteImm:
		imm = swap32(imm)
	case OpSendInvalidate, OpLocalInvalidate:
		imm = r.Key
	case OpBindMW:
		return q.postError(r.Op, r.ID, ErrInvalid, "use BindMW to bind a window")
	}
	if q.cfg.Type == UD {
		if err := q.enterAH(r.Op, r.ID, r.To.AH); err != nil {
			return err
		}
		defer r.To.AH.leave()
	}
	q.send.lock()
	w := &q.send.wr
	w.Imm, w.Remote, w.RKey, w.Compare, w.Swap = imm, r.Remote.Addr, r.Remote.RKey, r.Compare, r.Swap
	if q.cfg.Type == UD {
		q.setDest(r.To)
	}
	var err error
	if len(r.Inline) > 0 {
		err = q.postInline(r.Op, r.ID, r.Flags, r.Inline)
	} else {
		err = q.postList(r.Op, r.ID, r.Flags, r.SGE)
	}
	q.send.unlock()
	return q.finishPost(r.Flags, err)
}

// Send queues a SEND of the memory that the list names. See Post for the errors of all methods that queue a request.
func (q *QP) Send(id uint64, f Flags, sge ...SGE) error {
	q.send.lock()
	err := q.postList(OpSend, id, f, sge)
	q.send.unlock()
	return q.finishPost(f, err)
}

// SendImm is Send with four bytes of immediate data, which the receiver finds in its completion.
func (q *QP) SendImm(id uint64, f Flags, imm uint32, sge ...SGE) error {
	q.send.lock()
	q.send.wr.Imm = swap32(imm)
	err := q.postList(OpSendImm, id, f, sge)
	q.send.unlock()
	return q.finishPost(f, err)
}

// SendInvalidate is Send that also invalidates a key of the receiver.
func (q *QP) SendInvalidate(id uint64, f Flags, rkey uint32, sge ...SGE) error {
	q.send.lock()
	q.send.wr.Imm = rkey
	err := q.postList(OpSendInvalidate, id, f, sge)
	q.send.unlock()
	return q.finishPost(f, err)
}

// SendInline is Send of bytes that are copied into the queue: they need no registration, and may be reused when it returns.
func (q *QP) SendInline(id uint64, f Flags, data []byte) error {
	q.send.lock()
	err := q.postInline(OpSend, id, f, data)
	q.send.unlock()
	return q.finishPost(f, err)
}

// SendTo queues a datagram.
func (q *QP) SendTo(id uint64, f Flags, to Dest, sge ...SGE) error {
	if err := q.enterAH(OpSend, id, to.AH); err != nil {
		return err
	}
	q.send.lock()
	q.setDest(to)
	err := q.postList(OpSend, id, f, sge)
	q.send.unlock()
	err = q.finishPost(f, err)
	to.AH.leave() // only now: with RingDoorbell the handle must exist until the doorbell has been rung
	return err
}

// Write queues a WRITE into the peer's memory.
func (q *QP) Write(id uint64, f Flags, to Remote, sge ...SGE) error {
	q.send.lock()
	q.send.wr.Remote, q.send.wr.RKey = to.Addr, to.RKey
	err := q.postList(OpWrite, id, f, sge)
	q.send.unlock()
	return q.finishPost(f, err)
}

// WriteImm is Write that also consumes a receive of the peer, whose completion contains the four bytes of immediate data.
func (q *QP) WriteImm(id uint64, f Flags, imm uint32, to Remote, sge ...SGE) error {
	q.send.lock()
	q.send.wr.Remote, q.send.wr.RKey = to.Addr, to.RKey
	q.send.wr.Imm = swap32(imm)
	err := q.postList(OpWriteImm, id, f, sge)
	q.send.unlock()
	return q.finishPost(f, err)
}

// WriteInline is Write of bytes that are copied into the queue, as with SendInline.
func (q *QP) WriteInline(id uint64, f Flags, to Remote, data []byte) error {
	q.send.lock()
	q.send.wr.Remote, q.send.wr.RKey = to.Addr, to.RKey
	err := q.postInline(OpWrite, id, f, data)
	q.send.unlock()
	return q.finishPost(f, err)
}

// Read queues a READ of the peer's memory into the memory that the list names.
func (q *QP) Read(id uint64, f Flags, from Remote, sge ...SGE) error {
	q.send.lock()
	q.send.wr.Remote, q.send.wr.RKey = from.Addr, from.RKey
	err := q.postList(OpRead, id, f, sge)
	q.send.unlock()
	return q.finishPost(f, err)
}

// CompareSwap queues an atomic operation on eight bytes of the peer's memory, aligned to eight: if they are equal to
// compare, they become swap. Their previous value is written to old, which has eight bytes. Numbers are in host order.
func (q *QP) CompareSwap(id uint64, f Flags, at Remote, compare, swap uint64, old SGE) error {
	one := [1]SGE{old}
	q.send.lock()
	q.send.wr.Remote, q.send.wr.RKey = at.Addr, at.RKey
	q.send.wr.Compare, q.send.wr.Swap = compare, swap
	err := q.postList(OpCompareSwap, id, f, one[:])
	q.send.unlock()
	return q.finishPost(f, err)
}

// FetchAdd is CompareSwap that adds.
func (q *QP) FetchAdd(id uint64, f Flags, at Remote, add uint64, old SGE) error {
	one := [1]SGE{old}
	q.send.lock()
	q.send.wr.Remote, q.send.wr.RKey = at.Addr, at.RKey
	q.send.wr.Compare = add
	err := q.postList(OpFetchAdd, id, f, one[:])
	q.send.unlock()
	return q.finishPost(f, err)
}

// LocalInvalidate queues the invalidation of a key of this process: that of a memory window of type 2.
func (q *QP) LocalInvalidate(id uint64, f Flags, rkey uint32) error {
	q.send.lock()
	q.send.wr.Imm = rkey
	err := q.postList(OpLocalInvalidate, id, f, nil)
	q.send.unlock()
	return q.finishPost(f, err)
}

// enterAH begins a call that uses the address handle of a datagram. It fails if the handle is missing, closed or of another open
// device. If it returns nil, the handle is not closed before the caller calls ah.leave.
func (q *QP) enterAH(op Opcode, id uint64, ah *AH) error {
	if ah == nil {
		return q.postError(op, id, ErrInvalid, "a datagram needs an address handle")
	}
	return q.enterOther(&ah.base, op, id)
}

// enterOther begins a call that uses another object that a request names. If it returns nil, the object is not closed before
// the caller calls b.leave.
func (q *QP) enterOther(b *base, op Opcode, id uint64) error {
	if b.ctx != q.ctx {
		return q.postError(op, id, ErrInvalid, "the %v belongs to another open device, %s", b, b.ctx.name)
	}
	if !b.tryEnter() {
		return q.postError(op, id, ErrClosed, "the %v", b)
	}
	return nil
}

// setDest sets the destination of the next request. The caller must hold the lock of q.send.
func (q *QP) setDest(to Dest) {
	w := &q.send.wr
	w.AH, w.AHNum, w.QPN, w.QKey = to.AH.ib, to.AH.ahNum, to.QPN, to.QKey
}

// postList queues a request with a list. Fields of q.send.wr that depend on the operation must be set. With RingDoorbell it also
// does the first half of Ring; finishPost does the second half. The caller must hold the lock of q.send.
func (q *QP) postList(op Opcode, id uint64, f Flags, sge []SGE) error {
	s := &q.send
	if s.state.Load() != sendReady || s.supported>>op&1 == 0 || len(sge) > len(s.sge) {
		return q.refusePost(op, id, len(sge), 0)
	}
	total := uint64(0)
	for i := range sge {
		total += uint64(sge[i].Len)
	}
	if total > s.maxMessage || atomicOpcodes>>op&1 != 0 && (len(sge) != 1 || total != 8 || s.wr.Remote%8 != 0) {
		return q.refuseSize(op, id, total)
	}
	s.wr.ID, s.wr.Opcode, s.wr.Flags = id, uint32(op), uint32(f&^RingDoorbell)
	if q.sendRing != nil {
		if !q.sendRing.PostList(&s.wr, castSGE(sge), uint32(total)) {
			return q.postFailed(op, id, ib.ErrFull)
		}
	} else {
		if len(sge) == 1 && len(s.wr.SGE) == 1 { // the usual length; copy would be a call
			s.wr.SGE[0] = ib.SGE(sge[0])
		} else {
			s.wr.SGE = s.sge[:copy(s.sge, castSGE(sge))]
		}
		s.wr.Last = f&RingDoorbell != 0
		if err := q.ib.Post(&s.wr); err != nil {
			return q.postFailed(op, id, err)
		}
	}
	if s.doorbellPending = f&RingDoorbell == 0; s.doorbellPending {
		return nil
	}
	return q.publish()
}

// postInline is postList with bytes in place of a list.
func (q *QP) postInline(op Opcode, id uint64, f Flags, data []byte) error {
	s := &q.send
	if s.state.Load() != sendReady || s.supported>>op&1 == 0 || len(data) > len(s.inline) {
		return q.refusePost(op, id, 0, len(data))
	}
	if uint64(len(data)) > s.maxMessage || atomicOpcodes>>op&1 != 0 {
		return q.refuseSize(op, id, uint64(len(data)))
	}
	s.wr.ID, s.wr.Opcode, s.wr.Flags = id, uint32(op), uint32(f&^RingDoorbell|inlineFlag)
	if q.sendRing != nil {
		if !q.sendRing.PostInline(&s.wr, data) {
			return q.postFailed(op, id, ib.ErrFull)
		}
	} else {
		s.wr.Inline = s.inline[:copy(s.inline, data)]
		s.wr.Last = f&RingDoorbell != 0
		if err := q.ib.Post(&s.wr); err != nil {
			return q.postFailed(op, id, err)
		}
	}
	if s.doorbellPending = f&RingDoorbell == 0; s.doorbellPending {
		return nil
	}
	return q.publish()
}

// publish does the part of Ring that needs the lock. With a ring it makes the requests visible to the driver, and ringDoorbell
// must follow after the lock is released, because it is a system call. Without a ring it is all of Ring. The caller must hold
// the lock of q.send.
func (q *QP) publish() error {
	if q.sendRing == nil {
		return q.ringProvider()
	}
	q.sendRing.Publish()
	return nil
}

// ringProvider is Ring of a provider without a ring. The caller must hold the lock of q.send.
func (q *QP) ringProvider() error {
	if err := q.ib.Ring(); err != nil {
		return q.fail("ring", err)
	}
	return nil
}

// finishPost rings the doorbell if a post succeeded, had the flag RingDoorbell and went into a ring. err is the error of the
// post, which is returned. The caller must have released the lock of q.send.
func (q *QP) finishPost(f Flags, err error) error {
	if f&RingDoorbell == 0 || err != nil || q.sendRing == nil {
		return err
	}
	return q.ringDoorbell()
}

// ringDoorbell does the part of Ring that is a system call of the rxe provider.
func (q *QP) ringDoorbell() error {
	err := q.sendRing.RingDoorbell()
	if err == nil {
		return nil
	}
	q.send.lock()
	q.send.doorbellPending = true
	q.send.unlock()
	return q.fail("ring", err)
}

// Ring rings the doorbell: the device reads everything that was posted. One Ring for several requests costs less than a Ring for
// each. After an error the next Ring tries again, but not for [Error.Dropped] requests, the last that were posted: those do not
// complete.
func (q *QP) Ring() error {
	s := &q.send
	s.lock()
	if s.state.Load() >= sendClosed {
		kind := q.closedKind()
		s.unlock()
		return q.refuse("ring", kind, "")
	}
	if !s.doorbellPending {
		s.unlock()
		return nil
	}
	s.doorbellPending = false
	err := q.publish()
	s.unlock()
	return q.finishPost(RingDoorbell, err)
}
