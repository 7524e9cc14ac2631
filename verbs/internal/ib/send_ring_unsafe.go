package ib

// Unsafe because the slots of a send queue are structs of the kernel (struct rxe_send_wqe), with a union in them.

import (
	"sync/atomic"
	"unsafe"

	"github.com/ibrun/ibrun/internal/abi/rxe"
	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// SendRing is the send queue of a queue pair. All methods but RingDoorbell must be called by one goroutine at a time.
type SendRing struct {
	ring
	doorbell *uverbs.Doorbell
}

// NewSendRing returns the send queue in a mapping of the driver.
func NewSendRing(mem []byte) (SendRing, error) {
	r, err := newRing(mem, sendFixedBytes)
	return SendRing{ring: r}, err
}

// SetDoorbell sets the doorbell of the queue pair. It must be called before RingDoorbell.
func (s *SendRing) SetDoorbell(d *uverbs.Doorbell) { s.doorbell = d }

// MaxSGE returns how many entries of a gather list fit into a slot.
func (s *SendRing) MaxSGE() uint32 { return s.MaxInline() / sgeBytes }

// MaxInline returns how many bytes of an inline message fit into a slot.
func (s *SendRing) MaxInline() uint32 { return s.variableBytes(sendFixedBytes) }

// Post writes a request into the queue, as QP.Post does.
func (s *SendRing) Post(wr *SendWR) error {
	ok := false
	if wr.Flags&sendInline != 0 {
		ok = s.PostInline(wr, wr.Inline)
	} else {
		total := uint32(0)
		for i := range wr.SGE {
			total += wr.SGE[i].Len
		}
		ok = s.PostList(wr, wr.SGE, total)
	}
	if !ok {
		return ErrFull
	}
	return nil
}

// PostList writes a request with the given list in place of wr.SGE. total is the sum of the lengths in the list. It returns
// false if the queue is full.
func (s *SendRing) PostList(wr *SendWR, sge []SGE, total uint32) bool {
	slot := s.nextFree()
	if slot == nil {
		return false
	}
	putList(slot, wr, sge, total)
	s.advance()
	return true
}

// PostInline writes a request with the given bytes in place of wr.Inline. data must not be longer than MaxInline. It returns
// false if the queue is full.
func (s *SendRing) PostInline(wr *SendWR, data []byte) bool {
	slot := s.nextFree()
	if slot == nil {
		return false
	}
	putInline(slot, wr, data)
	s.advance()
	return true
}

// Publish makes everything that was posted visible to the driver. It is the first half of QP.Ring.
func (s *SendRing) Publish() { s.publish() }

// RingDoorbell is the second half of QP.Ring: the system call by which the driver reads the queue. Any number of goroutines may
// call it at any time. During and after Close it returns an error and has no other effect.
func (s *SendRing) RingDoorbell() error { return s.doorbell.Ring() }

// Rewind drops the requests that were posted and not published.
func (s *SendRing) Rewind() {
	if s.mem != nil {
		s.next = atomic.LoadUint32(s.producer) & s.mask
	}
}

// The numbers that the functions below compare with.
const (
	opWrite       = uint32(abi.WRRDMAWrite)
	opWriteImm    = uint32(abi.WRRDMAWriteWithImm)
	opSend        = uint32(abi.WRSend)
	opSendImm     = uint32(abi.WRSendWithImm)
	opRead        = uint32(abi.WRRDMARead)
	opCompareSwap = uint32(abi.WRAtomicCmpAndSwp)
	opFetchAdd    = uint32(abi.WRAtomicFetchAndAdd)
	opBindMW      = uint32(abi.WRBindMW)
	sendInline    = uint32(abi.SendInline)
)

// putList fills a slot with a request and a list of total bytes.
func putList(slot unsafe.Pointer, wr *SendWR, sge []SGE, total uint32) {
	w := (*rxe.SendWQE)(slot)
	putCommon(w, wr)
	if wr.Opcode != opSend || wr.AH != nil {
		putOp(w, wr)
	}
	if list := (*SGE)(unsafe.Add(slot, sendFixedBytes)); len(sge) == 1 { // the usual length; copy would be a call
		*list = sge[0]
	} else {
		copy(unsafe.Slice(list, len(sge)), sge)
	}
	w.DMA.Length, w.DMA.Resid, w.DMA.NumSGE = total, total, uint32(len(sge))
}

// putInline fills a slot with a request and its inline data.
func putInline(slot unsafe.Pointer, wr *SendWR, data []byte) {
	w := (*rxe.SendWQE)(slot)
	putCommon(w, wr)
	if wr.Opcode != opSend || wr.AH != nil {
		putOp(w, wr)
	}
	n := copy(unsafe.Slice((*byte)(unsafe.Add(slot, sendFixedBytes)), len(data)), data)
	w.DMA.Length, w.DMA.Resid, w.DMA.NumSGE = uint32(n), uint32(n), 1
}

// putCommon fills in what all requests have. It does not call putOp, because it would not be inlined then.
func putCommon(w *rxe.SendWQE, wr *SendWR) {
	*w = rxe.SendWQE{}
	w.WR.WRID, w.WR.Opcode, w.WR.SendFlags, w.WR.Ex = wr.ID, wr.Opcode, wr.Flags, wr.Imm
}

// putOp fills in the part that depends on the operation.
func putOp(w *rxe.SendWQE, wr *SendWR) {
	op := unsafe.Pointer(&w.WR.Op)
	switch wr.Opcode {
	case opWrite, opWriteImm, opRead:
		*(*rxe.RDMA)(op) = rxe.RDMA{RemoteAddr: wr.Remote, RKey: wr.RKey}
		w.IOVA = wr.Remote
	case opCompareSwap, opFetchAdd:
		*(*rxe.Atomic)(op) = rxe.Atomic{RemoteAddr: wr.Remote, CompareAdd: wr.Compare, Swap: wr.Swap, RKey: wr.RKey}
		w.IOVA = wr.Remote
	case opBindMW:
		lkey, _ := wr.Bind.MR.Keys()
		*(*rxe.MW)(op) = rxe.MW{Addr: wr.Bind.Addr, Length: wr.Bind.Length, MRLKey: lkey, MWRKey: wr.Bind.MW.RKey(),
			RKey: wr.Bind.RKey, Access: wr.Bind.Access}
		wr.Bind.MW.(RKeySetter).SetRKey(wr.Bind.RKey)
	case opSend, opSendImm:
		if wr.AH != nil {
			*(*rxe.UD)(op) = rxe.UD{RemoteQPN: wr.QPN, RemoteQKey: wr.QKey, PKeyIndex: wr.PKeyIndex, AHNum: wr.AHNum}
		}
	}
}
