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

// sender is the sending side of a queue pair, of which it has the methods Post and Ring.
type sender struct {
	x         *context
	pair      uintptr
	signalAll bool
	room      *room
	slots     []slot
	n         int     // slots in use, linked in this order
	first     uintptr // address of the first request
	perWR     int     // entries of a list
	inline    int     // bytes of a message that is copied
	bad       *uintptr
	badAt     uintptr    // where C writes the address of the request that it refused: bad
	mwBind    ibv.MWBind // of a window of type 1
}

// slot holds a request, its list and its inline data, for C to read during the call that hands them over.
type slot struct {
	wr       *ibv.SendWR
	at       uintptr // address of wr
	sge      []ib.SGE
	inline   []byte
	inlineAt uintptr
}

func (s *sender) init(x *context, pair uintptr, c ib.Cap, signalAll bool) {
	n := min(gather, max(int(c.SendWR), 1))
	perWR, inline := max(int(c.SendSGE), 1), int(c.Inline) // inline data needs an entry too
	wr, wrAt := onHeap[ibv.SendWR](n)
	sge, sgeAt := onHeap[ib.SGE](n * perWR)
	data, dataAt := onHeap[byte](n * inline)
	bad, badAt := onHeap[uintptr](1)
	*s = sender{x: x, pair: pair, signalAll: signalAll, room: newRoom(c.SendWR), slots: make([]slot, n), first: wrAt,
		perWR: perWR, inline: inline, bad: &bad[0], badAt: badAt}
	for i := range s.slots {
		s.slots[i] = slot{wr: &wr[i], at: wrAt + uintptr(i)*sendWRSize, sge: sge[i*perWR : (i+1)*perWR],
			inline: data[i*inline : (i+1)*inline], inlineAt: dataAt + uintptr(i*inline)}
		wr[i].SGList = sgeAt + uintptr(i*perWR)*sgeSize
	}
}

// Post gathers a request, if the device is certain to have room for it.
func (s *sender) Post(wr *ib.SendWR) error {
	if len(wr.SGE) > s.perWR || len(wr.Inline) > s.inline {
		return failed("ibv_post_send", int32(syscall.EINVAL))
	}
	if !s.room.sure() || s.n == len(s.slots) || uverbs.WROpcode(wr.Opcode) == uverbs.WRBindMW {
		return s.ask(wr)
	}
	s.fill(wr)
	s.room.post(s.signaled(wr))
	return nil
}

// ask is Post that may have to hand over what was gathered before. Where the device may have no room for a request, it is handed
// over at once, so that the answer is the device's.
func (s *sender) ask(wr *ib.SendWR) error {
	if s.room.full() {
		return ib.ErrFull
	}
	if err := s.Ring(); err != nil {
		return err
	}
	window := boundBy(wr)
	if window != nil && window.kind == uverbs.MWType1 {
		return s.bind(wr)
	}
	ask := window != nil || !s.room.sure()
	s.fill(wr)
	signaled := s.signaled(wr)
	s.room.post(signaled)
	if !ask {
		return nil
	}
	errno := s.hand()
	if s.lost(1, errno) > 0 {
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

// fill writes a request into the next slot, behind those in use.
func (s *sender) fill(wr *ib.SendWR) {
	l := &s.slots[s.n]
	if s.n > 0 {
		s.slots[s.n-1].wr.Next = l.at
	}
	s.n++
	c := l.wr
	c.WRID, c.Next, c.Opcode, c.SendFlags, c.Ex = wr.ID, 0, wr.Opcode, wr.Flags, wr.Imm
	switch {
	case uverbs.SendFlags(wr.Flags)&uverbs.SendInline == 0:
		c.NumSGE = lay(l.sge, wr.SGE)
	case len(wr.Inline) == 0:
		c.NumSGE = 0
	default:
		copy(l.inline, wr.Inline)
		l.sge[0] = ib.SGE{Addr: uint64(l.inlineAt), Len: uint32(len(wr.Inline))}
		c.NumSGE = 1
	}
	if wr.AH != nil || uverbs.WROpcode(wr.Opcode) != uverbs.WRSend {
		aim(c, wr)
	}
}

// aim writes what a request has beside its data.
func aim(c *ibv.SendWR, wr *ib.SendWR) {
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

// Ring hands over what was gathered, and so calls C under the lock of the send queue; two parts, one of them without it, would
// gain nothing. The order of requests is that of the calls that hand them over, so these must be made one at a time, with a lock
// that Post needs too where it hands over what it has gathered. And adapters ring their doorbell by a store: there is a system
// call in it with rxe only, which has a provider of its own.
func (s *sender) Ring() error {
	if s.n == 0 {
		return nil
	}
	n := s.n
	if errno := s.hand(); errno != 0 {
		s.room.blind.Store(true) // requests were counted that are no more
		return &PostError{Errno: syscall.Errno(errno), Lost: s.lost(n, errno)}
	}
	return nil
}

// hand hands the slots in use to the device.
func (s *sender) hand() (errno int32) {
	s.n, *s.bad = 0, 0
	return int32(s.x.lib.enter(s.x.c.Ops.PostSend, s.pair, s.first, s.badAt))
}

// lost is how many of n requests, the last ones, were not queued by the call of hand that returned errno.
func (s *sender) lost(n int, errno int32) int {
	if errno == 0 || *s.bad == 0 {
		return 0
	}
	return n - int((*s.bad-s.first)/sendWRSize)
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
	bad   *uintptr
	badAt uintptr // of bad
}

func (r *receiver) init(lib *library, call string, fn *uintptr, queue uintptr, sge uint32) {
	bad, badAt := onHeap[uintptr](1)
	wr, wrAt := onHeap[ibv.RecvWR](1)
	list, listAt := onHeap[ib.SGE](int(sge))
	wr[0].SGList = listAt
	*r = receiver{lib: lib, call: call, fn: fn, queue: queue, wr: &wr[0], wrAt: wrAt, sge: list, bad: &bad[0], badAt: badAt}
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
