//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// gather is how many requests Post keeps for one call of ibv_post_send, unless Ring comes before.
const gather = 16

// sender is the sending side of a queue pair. Each of its slots holds a request, its list and its inline data; C reads them
// during the call that hands them over.
type sender struct {
	x           *context
	qp          uintptr
	signalAll   bool
	room        *room
	n           int // slots in use
	wr          []ibv.SendWR
	wrAt        uintptr // address of the slots
	sge         []ib.SGE
	sgeAt       uintptr
	perWR       int // entries of sge for each slot
	inline      []byte
	inlineAt    uintptr
	inlinePerWR int
	out         *outcome
}

// outcome is what a call reads and writes beside the requests, on the heap.
type outcome struct {
	bad  uintptr    // address of the request that C refused
	bind ibv.MWBind // of a window of type 1
}

func (s *sender) init(x *context, qp uintptr, c ib.Cap, signalAll bool) {
	n := min(gather, max(int(c.SendWR), 1))
	*s = sender{x: x, qp: qp, signalAll: signalAll, room: newRoom(c.SendWR), out: new(outcome),
		perWR: max(int(c.SendSGE), 1), inlinePerWR: int(c.Inline)} // inline data needs an entry too
	s.wr, s.wrAt = onHeap[ibv.SendWR](n)
	s.sge, s.sgeAt = onHeap[ib.SGE](n * s.perWR)
	s.inline, s.inlineAt = onHeap[byte](n * s.inlinePerWR)
	for i := range s.wr {
		s.wr[i].SGList = s.sgeAt + uintptr(i*s.perWR)*sgeSize
		s.link(i)
	}
}

// link makes a slot point to the one behind it.
func (s *sender) link(i int) {
	if i+1 < len(s.wr) {
		s.wr[i].Next = s.wrAt + uintptr(i+1)*sendWRSize
	}
}

// post gathers a request. Where the device may have no room for it, it is handed over at once, so that the answer is the
// device's.
func (s *sender) post(wr *ib.SendWR) error {
	if len(wr.SGE) > s.perWR || len(wr.Inline) > s.inlinePerWR {
		return failed("ibv_post_send", int32(syscall.EINVAL))
	}
	if s.room.full() {
		return ib.ErrFull
	}
	window := boundBy(wr)
	ask := !s.room.sure() || window != nil
	if ask || s.n == len(s.wr) {
		if err := s.ring(); err != nil {
			return err
		}
	}
	if window != nil && window.kind == uverbs.MWType1 {
		return s.bind(wr)
	}
	s.fill(s.n, wr)
	s.n++
	signaled := s.signaled(wr)
	s.room.post(signaled)
	if !ask {
		return nil
	}
	lost, errno := s.hand()
	if lost > 0 {
		s.room.unpost(signaled)
	} else if window != nil {
		window.setRKey(wr.Bind.RKey)
	}
	return refused("ibv_post_send", errno)
}

// boundBy is the window that a request binds, or nil.
func boundBy(wr *ib.SendWR) *mw {
	if uverbs.WROpcode(wr.Opcode) != uverbs.WRBindMW {
		return nil
	}
	return wr.Bind.MW.(*mw)
}

func (s *sender) signaled(wr *ib.SendWR) bool {
	return s.signalAll || uverbs.SendFlags(wr.Flags)&uverbs.SendSignaled != 0
}

// fill writes a request into a slot.
func (s *sender) fill(i int, wr *ib.SendWR) {
	c := &s.wr[i]
	c.WRID, c.Opcode, c.SendFlags, c.Ex = wr.ID, wr.Opcode, wr.Flags, wr.Imm
	sge := s.sge[i*s.perWR : (i+1)*s.perWR]
	switch {
	case uverbs.SendFlags(wr.Flags)&uverbs.SendInline == 0:
		c.NumSGE = int32(copy(sge, wr.SGE))
	case len(wr.Inline) == 0:
		c.NumSGE = 0
	default:
		at := i * s.inlinePerWR
		copy(s.inline[at:], wr.Inline)
		sge[0] = ib.SGE{Addr: uint64(s.inlineAt) + uint64(at), Len: uint32(len(wr.Inline))}
		c.NumSGE = 1
	}
	switch op := uverbs.WROpcode(wr.Opcode); {
	case wr.AH != nil:
		*operation[ibv.UD](c) = ibv.UD{AH: wr.AH.(*ah).ptr, RemoteQPN: wr.QPN, RemoteQKey: wr.QKey}
	case op == uverbs.WRAtomicCmpAndSwp, op == uverbs.WRAtomicFetchAndAdd:
		*operation[ibv.Atomic](c) = ibv.Atomic{RemoteAddr: wr.Remote, CompareAdd: wr.Compare, Swap: wr.Swap, RKey: wr.RKey}
	case op == uverbs.WRBindMW:
		c.Bind = ibv.BindMW{MW: wr.Bind.MW.(*mw).ptr, RKey: wr.Bind.RKey, BindInfo: bindInfo(&wr.Bind)}
	default:
		*operation[ibv.RDMA](c) = ibv.RDMA{RemoteAddr: wr.Remote, RKey: wr.RKey}
	}
}

func bindInfo(b *ib.Bind) ibv.MWBindInfo {
	return ibv.MWBindInfo{MR: b.MR.(*mr).ptr, Addr: b.Addr, Length: b.Length, MWAccessFlags: b.Access}
}

// bind binds a window of type 1, which is a call of its own; the library chooses the new key.
func (s *sender) bind(wr *ib.SendWR) error {
	const call = "ibv_bind_mw"
	if s.x.c.Ops.BindMW == 0 {
		return noFunction(call)
	}
	if err := s.ring(); err != nil {
		return err
	}
	s.out.bind = ibv.MWBind{WRID: wr.ID, SendFlags: wr.Flags, BindInfo: bindInfo(&wr.Bind)}
	signaled := s.signaled(wr)
	s.room.post(signaled)
	errno := s.x.lib.bindMW(s.x.c.Ops.BindMW, s.qp, wr.Bind.MW.(*mw).ptr, &s.out.bind)
	if errno != 0 {
		s.room.unpost(signaled)
	}
	return refused(call, errno)
}

// ring hands over what was gathered.
func (s *sender) ring() error {
	if s.n == 0 {
		return nil
	}
	lost, errno := s.hand()
	if errno == 0 {
		return nil
	}
	s.room.blind.Store(true) // requests were counted that are no more
	return &PostError{Errno: syscall.Errno(errno), Lost: lost}
}

// hand hands the slots in use to the device. It returns how many of them, the last ones, were not queued, and why.
func (s *sender) hand() (lost int, errno int32) {
	n := s.n
	s.n = 0
	s.wr[n-1].Next, s.out.bad = 0, 0
	errno = s.x.lib.post(s.x.c.Ops.PostSend, s.qp, s.wrAt, &s.out.bad)
	s.link(n - 1)
	if errno != 0 && s.out.bad != 0 {
		lost = n - int((s.out.bad-s.wrAt)/sendWRSize)
	}
	return lost, errno
}

// refused is the error for a single request.
func refused(call string, errno int32) error {
	switch {
	case errno == 0:
		return nil
	case syscall.Errno(errno) == syscall.ENOMEM:
		return ib.ErrFull
	}
	return failed(call, errno)
}

// receiver is the receiving side of a queue pair, or a shared receive queue.
type receiver struct {
	lib   *library
	queue uintptr
	wr    []ibv.RecvWR // one
	wrAt  uintptr
	sge   []ib.SGE
	out   *outcome
}

func (r *receiver) init(lib *library, queue uintptr, sge uint32) {
	r.lib, r.queue, r.out = lib, queue, new(outcome)
	r.wr, r.wrAt = onHeap[ibv.RecvWR](1)
	var sgeAt uintptr
	r.sge, sgeAt = onHeap[ib.SGE](int(sge))
	r.wr[0].SGList = sgeAt
}

// post hands over one request. The device answers at once.
func (r *receiver) post(call string, fn uintptr, id uint64, sge []ib.SGE) error {
	if len(sge) > len(r.sge) {
		return failed(call, int32(syscall.EINVAL))
	}
	r.wr[0].WRID = id
	r.wr[0].NumSGE = int32(copy(r.sge, sge))
	return refused(call, r.lib.post(fn, r.queue, r.wrAt, &r.out.bad))
}
