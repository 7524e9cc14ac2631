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

// sender is the sending side of a queue pair, of which it has the methods Post and Ring. Each of its slots holds a request, its list
// and its inline data; C reads them during the call that hands them over.
type sender struct {
	x           *context
	pair        uintptr
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
	bad         []uintptr // one: the address of the request that C refused
	badAt       uintptr
	mwBind      ibv.MWBind // of a window of type 1
}

func (s *sender) init(x *context, pair uintptr, c ib.Cap, signalAll bool) {
	n := min(gather, max(int(c.SendWR), 1))
	*s = sender{x: x, pair: pair, signalAll: signalAll, room: newRoom(c.SendWR),
		perWR: max(int(c.SendSGE), 1), inlinePerWR: int(c.Inline)} // inline data needs an entry too
	s.wr, s.wrAt = onHeap[ibv.SendWR](n)
	s.sge, s.sgeAt = onHeap[ib.SGE](n * s.perWR)
	s.inline, s.inlineAt = onHeap[byte](n * s.inlinePerWR)
	s.bad, s.badAt = onHeap[uintptr](1)
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

// Post gathers a request. Where the device may have no room for it, it is handed over at once, so that the answer is the
// device's.
func (s *sender) Post(wr *ib.SendWR) error {
	if len(wr.SGE) > s.perWR || len(wr.Inline) > s.inlinePerWR {
		return failed("ibv_post_send", int32(syscall.EINVAL))
	}
	if s.room.full() {
		return ib.ErrFull
	}
	window := boundBy(wr)
	ask := !s.room.sure() || window != nil
	if ask || s.n == len(s.wr) {
		if err := s.Ring(); err != nil {
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
		c.NumSGE = lay(sge, wr.SGE)
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
	case op != uverbs.WRSend:
		*operation[ibv.RDMA](c) = ibv.RDMA{RemoteAddr: wr.Remote, RKey: wr.RKey}
	}
}

// lay copies a list. Most have one entry, and copy is a call.
func lay(to, from []ib.SGE) int32 {
	if len(from) == 1 {
		to[0] = from[0]
		return 1
	}
	return int32(copy(to, from))
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
	if err := s.Ring(); err != nil {
		return err
	}
	s.mwBind = ibv.MWBind{WRID: wr.ID, SendFlags: wr.Flags, BindInfo: bindInfo(&wr.Bind)}
	signaled := s.signaled(wr)
	s.room.post(signaled)
	errno := s.x.lib.bindMW(s.x.c.Ops.BindMW, s.pair, wr.Bind.MW.(*mw).ptr, &s.mwBind)
	if errno != 0 {
		s.room.unpost(signaled)
	}
	return refused(call, errno)
}

// Ring hands over what was gathered, and so calls C under the lock of the send queue; two parts, one of them without it, would gain
// nothing. The order of requests is that of the calls that hand them over, so these must be made one at a time, with a lock that
// Post needs too where it hands over what it has gathered. And adapters ring their doorbell by a store: there is a system call in it
// with rxe only, which has a provider of its own.
func (s *sender) Ring() error {
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
	s.wr[n-1].Next, s.bad[0] = 0, 0
	errno = int32(s.x.lib.enter(s.x.c.Ops.PostSend, s.pair, s.wrAt, s.badAt))
	s.link(n - 1)
	if errno != 0 && s.bad[0] != 0 {
		lost = n - int((s.bad[0]-s.wrAt)/sendWRSize)
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

// receiver is the receiving side of a queue pair, or a shared receive queue, of which it has the method Recv.
type receiver struct {
	lib   *library
	call  string   // for errors
	fn    *uintptr // in the context's table
	queue uintptr
	wr    *ibv.RecvWR
	wrAt  uintptr
	sge   []ib.SGE
	bad   []uintptr
	badAt uintptr
}

func (r *receiver) init(lib *library, call string, fn *uintptr, queue uintptr, sge uint32) {
	bad, badAt := onHeap[uintptr](1)
	wr, wrAt := onHeap[ibv.RecvWR](1)
	list, listAt := onHeap[ib.SGE](int(sge))
	wr[0].SGList = listAt
	*r = receiver{lib: lib, call: call, fn: fn, queue: queue, wr: &wr[0], wrAt: wrAt, sge: list, bad: bad, badAt: badAt}
}

// Recv hands over one request. The device answers at once.
func (r *receiver) Recv(id uint64, sge []ib.SGE) error {
	if len(sge) > len(r.sge) {
		return failed(r.call, int32(syscall.EINVAL))
	}
	r.wr.WRID = id
	r.wr.NumSGE = lay(r.sge, sge)
	if errno := int32(r.lib.enter(*r.fn, r.queue, r.wrAt, r.badAt)); errno != 0 {
		return refused(r.call, errno)
	}
	return nil
}
