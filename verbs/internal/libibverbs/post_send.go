//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// maxBatch is the maximum number of requests that Post collects for one call of ibv_post_send.
const maxBatch = 16

// sendQueue is the send queue of a queue pair: its methods Post and Ring.
type sendQueue struct {
	ctx       *context
	qp        uintptr
	signalAll bool
	space     *sendSpace
	slots     []slot  // one, or maxBatch from when requests are stored; thousands of queue pairs submit each request at once
	room      int     // number of requests that can be stored: 0, or that of the slots
	used      int     // number of slots in use, which are linked in this order
	firstAddr uintptr // address of the request in the first slot
	maxSGE    int     // maximum number of entries of a list
	maxInline int     // maximum number of bytes of an inline message
	badWR     *uintptr
	badWRAddr uintptr    // address of *badWR, where C writes the address of the request that it refused
	mwBind    ibv.MWBind // of a window of type 1
}

// slot holds a request, its list and its inline data. C reads them during submit.
type slot struct {
	wr         *ibv.SendWR
	addr       uintptr // address of wr
	sge        []ib.SGE
	inline     []byte
	inlineAddr uintptr
}

func (s *sendQueue) init(x *context, pair uintptr, qpn uint32, c ib.Cap, signalAll bool) {
	bad, badAt := onHeap[uintptr](1)
	*s = sendQueue{ctx: x, qp: pair, signalAll: signalAll, space: newSendSpace(qpn, c.SendWR), maxInline: int(c.Inline),
		maxSGE: max(int(c.SendSGE), 1), badWR: &bad[0], badWRAddr: badAt} // inline data needs an entry too
	s.allocate(1, 0)
}

// allocate replaces the slots, which must not be in use.
func (s *sendQueue) allocate(n, inline int) {
	wr, wrAt := onHeap[ibv.SendWR](n)
	sge, sgeAt := onHeap[ib.SGE](n * s.maxSGE)
	data, dataAt := onHeap[byte](n * inline)
	s.slots, s.firstAddr = make([]slot, n), wrAt
	for i := range s.slots {
		s.slots[i] = slot{wr: &wr[i], addr: wrAt + uintptr(i)*sendWRSize, sge: sge[i*s.maxSGE : (i+1)*s.maxSGE],
			inline: data[i*inline : (i+1)*inline], inlineAddr: dataAt + uintptr(i*inline)}
		wr[i].SGList = sgeAt + uintptr(i*s.maxSGE)*sgeSize
	}
}

// Post stores a request for the next submit if the device certainly has space for it. If not, it submits the request. It also
// does so if Ring would submit no other request: then the error is one of this request.
func (s *sendQueue) Post(wr *ib.SendWR) error {
	if len(wr.SGE) > s.maxSGE || len(wr.Inline) > s.maxInline {
		return failed("ibv_post_send", int32(syscall.EINVAL))
	}
	alone := wr.Last && s.used == 0
	if alone || !s.space.hasSpace() || s.used == s.room || uverbs.WROpcode(wr.Opcode) == uverbs.WRBindMW {
		return s.postChecked(wr, alone)
	}
	s.fill(wr, false)
	s.space.post(s.signaled(wr))
	return nil
}

// postChecked is Post that submits the stored requests first. If alone is true, or if the device may have no space for the new
// request, it is submitted immediately, and the result is the device's.
func (s *sendQueue) postChecked(wr *ib.SendWR, alone bool) error {
	if s.space.full() {
		return ib.ErrFull
	}
	if err := s.Ring(); err != nil {
		return err
	}
	window := boundWindow(wr)
	if window != nil && window.kind == uverbs.MWType1 {
		return s.bindType1(wr)
	}
	submitNow := alone || window != nil || !s.space.hasSpace()
	if !submitNow && s.room == 0 {
		s.room = int(min(maxBatch, max(s.space.size, 1)))
		s.allocate(s.room, s.maxInline)
	}
	s.fill(wr, submitNow)
	signaled := s.signaled(wr)
	s.space.post(signaled)
	if !submitNow {
		return nil
	}
	errno := s.submit()
	if s.notQueued(1, errno) > 0 {
		s.space.undoPost(signaled)
	} else if window != nil {
		window.setRKey(wr.Bind.RKey)
	}
	return postError("ibv_post_send", errno)
}

// boundWindow returns the window that a request binds, or nil.
func boundWindow(wr *ib.SendWR) *mw {
	if uverbs.WROpcode(wr.Opcode) != uverbs.WRBindMW {
		return nil
	}
	return wr.Bind.MW.(*mw)
}

func (s *sendQueue) signaled(wr *ib.SendWR) bool {
	return s.signalAll || uverbs.SendFlags(wr.Flags)&uverbs.SendSignaled != 0
}

// fill writes a request into the next free slot. If it is submitted now, C reads the inline data where they are.
func (s *sendQueue) fill(wr *ib.SendWR, now bool) {
	l := &s.slots[s.used]
	if s.used > 0 {
		s.slots[s.used-1].wr.Next = l.addr
	}
	s.used++
	c := l.wr
	c.WRID, c.Next, c.Opcode, c.SendFlags, c.Ex = wr.ID, 0, wr.Opcode, wr.Flags, wr.Imm
	switch {
	case uverbs.SendFlags(wr.Flags)&uverbs.SendInline == 0:
		c.NumSGE = copyList(l.sge, wr.SGE)
	case len(wr.Inline) == 0:
		c.NumSGE = 0
	case now:
		l.sge[0] = ib.SGE{Addr: uint64(addressOf(wr.Inline)), Len: uint32(len(wr.Inline))}
		c.NumSGE = 1
	default:
		copy(l.inline, wr.Inline)
		l.sge[0] = ib.SGE{Addr: uint64(l.inlineAddr), Len: uint32(len(wr.Inline))}
		c.NumSGE = 1
	}
	if wr.AH != nil || uverbs.WROpcode(wr.Opcode) != uverbs.WRSend {
		fillOp(c, wr)
	}
}

// fillOp writes the part of a request that depends on the operation.
func fillOp(c *ibv.SendWR, wr *ib.SendWR) {
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

// copyList copies a list. The usual length is one, for which copy would be a call.
func copyList(to, from []ib.SGE) int32 {
	if len(from) == 1 {
		to[0] = from[0]
		return 1
	}
	return int32(copy(to, from))
}

func bindInfo(b *ib.Bind) ibv.MWBindInfo {
	return ibv.MWBindInfo{MR: b.MR.(*mr).ptr, Addr: b.Addr, Length: b.Length, MWAccessFlags: b.Access}
}

// bindType1 binds a window of type 1. The library has a function of its own for that, and chooses the new key.
func (s *sendQueue) bindType1(wr *ib.SendWR) error {
	const call = "ibv_bind_mw"
	if s.ctx.ibvCtx.Ops.BindMW == 0 {
		return noFunction(call)
	}
	if err := s.Ring(); err != nil {
		return err
	}
	s.mwBind = ibv.MWBind{WRID: wr.ID, SendFlags: wr.Flags, BindInfo: bindInfo(&wr.Bind)}
	signaled := s.signaled(wr)
	s.space.post(signaled)
	errno := s.ctx.lib.bindMW(s.ctx.ibvCtx.Ops.BindMW, s.qp, wr.Bind.MW.(*mw).ptr, &s.mwBind)
	if errno != 0 {
		s.space.undoPost(signaled)
	}
	return postError(call, errno)
}

// Ring submits the stored requests. It calls C while package verbs holds the lock of the send queue. Releasing the lock for a
// part of Ring would gain nothing. The order of requests is that of the calls that submit them, so these calls need a lock that
// Post needs as well when it submits. And adapters ring their doorbell with a store. Only the driver of rxe makes a system call,
// and rxe has a provider of its own.
func (s *sendQueue) Ring() error {
	if s.used == 0 {
		return nil
	}
	n := s.used
	if errno := s.submit(); errno != 0 {
		s.space.untracked.Store(true) // requests were counted that do not exist any more
		return &PostError{Errno: syscall.Errno(errno), Lost: s.notQueued(n, errno)}
	}
	return nil
}

// submit posts the requests in the slots with one call of ibv_post_send.
func (s *sendQueue) submit() (errno int32) {
	s.used, *s.badWR = 0, 0
	return int32(s.ctx.lib.callDataPath(s.ctx.ibvCtx.Ops.PostSend, s.qp, s.firstAddr, s.badWRAddr))
}

// notQueued returns how many of n requests, the last ones, were not queued by the call of submit that returned errno.
func (s *sendQueue) notQueued(n int, errno int32) int {
	if errno == 0 || *s.badWR == 0 {
		return 0
	}
	return n - int((*s.badWR-s.firstAddr)/sendWRSize)
}

// postError returns the error of a single request, or nil.
func postError(call string, errno int32) error {
	switch {
	case errno == 0:
		return nil
	case syscall.Errno(errno) == syscall.ENOMEM:
		return ib.ErrFull
	}
	return failed(call, errno)
}
