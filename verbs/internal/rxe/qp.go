package rxe

import (
	"errors"
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/rxe"
	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// qp is a queue pair.
type qp struct {
	c           *context
	handle, num uint32
	token       uint64
	cap         ib.Cap
	send        SendQueue
	RecvQueue
}

// SendQueue is the send queue of a queue pair. Who knows that it is one of these posts what has not been copied for it, with
// several calls less than by the seam, and rings without a lock.
type SendQueue struct {
	ring ring
	bell *uverbs.Doorbell
}

// SendsOf is the send queue of a queue pair that is one of this package's, else nil.
func SendsOf(q ib.QP) *SendQueue {
	if q, ok := q.(*qp); ok {
		return &q.send
	}
	return nil
}

// RecvsOf is the receive queue of a queue pair, or a shared one, that is one of this package's, else nil.
func RecvsOf(q interface{ Recv(uint64, []ib.SGE) error }) *RecvQueue {
	switch q := q.(type) {
	case *qp:
		return &q.RecvQueue
	case *srq:
		return &q.RecvQueue
	}
	return nil
}

// List is Post of a request with that list in place of its own, of so many bytes in all. It reports false if the queue is full.
func (s *SendQueue) List(wr *ib.SendWR, sge []ib.SGE, total uint32) bool {
	slot := s.ring.free()
	if slot == nil {
		return false
	}
	s.ring.putList(slot, wr, sge, total)
	s.ring.filled()
	return true
}

// Inline is Post of a request with these bytes in place of its own, for which the slot has room.
func (s *SendQueue) Inline(wr *ib.SendWR, data []byte) bool {
	slot := s.ring.free()
	if slot == nil {
		return false
	}
	s.ring.putInline(slot, wr, data)
	s.ring.filled()
	return true
}

// Publish is the first half of Ring: it makes visible to the driver what was posted. It is called by one goroutine at a time, and
// never during Post.
func (s *SendQueue) Publish() { s.ring.publish() }

// Doorbell is the other half: it has the driver look. Any number of goroutines may call it at any time, even during and after
// Close, when it is an error and otherwise harmless.
func (s *SendQueue) Doorbell() error { return s.bell.Ring() }

func (p *pd) CreateQP(init ib.QPInit) (ib.QP, error) {
	q := &qp{c: p.c, token: p.c.tokens.Add(1)}
	in := abi.CreateQP{
		UserHandle: q.token, PDHandle: p.handle, SendCQHandle: init.SendCQ.(*cq).handle, RecvCQHandle: init.RecvCQ.(*cq).handle,
		MaxSendWR: init.Cap.SendWR, MaxRecvWR: init.Cap.RecvWR, MaxSendSGE: init.Cap.SendSGE, MaxRecvSGE: init.Cap.RecvSGE,
		MaxInlineData: init.Cap.Inline, QPType: init.Type,
	}
	if init.SignalAll {
		in.SQSigAll = 1
	}
	if s, ok := init.SRQ.(*srq); ok {
		in.IsSRQ, in.SRQHandle = 1, s.handle
	}
	var answer rxe.CreateQPResp
	r, err := p.c.u.CreateQP(in, uverbs.Driver{Out: bytesOf(&answer)})
	if err != nil {
		return nil, err
	}
	q.handle, q.num = r.QPHandle, r.QPN
	if err := q.use(&answer, in.IsSRQ != 0); err != nil {
		p.c.u.DestroyQP(q.handle)
		p.c.unmapRing(&q.send.ring)
		return nil, err
	}
	q.cap = ib.Cap{
		SendWR: q.send.ring.capacity(), RecvWR: q.RecvQueue.capacity(),
		// What the driver says it can take must also have room in the slots.
		SendSGE: min(r.MaxSendSGE, q.send.ring.room(sendFixed)/sgeBytes),
		RecvSGE: min(r.MaxRecvSGE, q.RecvQueue.room(recvFixed)/sgeBytes),
		Inline:  min(r.MaxInlineData, q.send.ring.room(sendFixed)),
	}
	q.send.bell = p.c.u.NewDoorbell(q.handle)
	return q, nil
}

// use maps the rings.
func (q *qp) use(at *rxe.CreateQPResp, shared bool) (err error) {
	if q.send.ring, err = q.c.mapRing(at.SQ, sendFixed); err != nil || shared {
		return err
	}
	q.RecvQueue.ring, err = q.c.mapRing(at.RQ, recvFixed)
	return err
}

func (q *qp) Num() uint32   { return q.num }
func (q *qp) Token() uint64 { return q.token }
func (q *qp) Cap() ib.Cap   { return q.cap }

func (q *qp) Post(wr *ib.SendWR) error {
	ok := false
	if wr.Flags&sendInline != 0 {
		ok = q.send.Inline(wr, wr.Inline)
	} else {
		total := uint32(0)
		for i := range wr.SGE {
			total += wr.SGE[i].Len
		}
		ok = q.send.List(wr, wr.SGE, total)
	}
	if !ok {
		return ib.ErrFull
	}
	return nil
}

func (q *qp) Ring() error {
	q.send.Publish()
	return q.send.Doorbell()
}

func (q *qp) Modify(a *ib.QPAttr, mask uint32) error {
	err := q.c.u.ModifyQP(modify(q.handle, a, mask))
	if err == nil && mask&uint32(abi.QPAttrState) != 0 && a.State == uint8(abi.QPSReset) {
		q.send.ring.rewind() // the driver has forgotten what was published
	}
	return err
}

func (q *qp) Query(mask uint32) (ib.QPAttr, error) {
	r, err := q.c.u.QueryQP(q.handle, mask)
	if err != nil {
		return ib.QPAttr{}, err
	}
	return queried(&r), nil
}

func (q *qp) AttachMulticast(gid [16]byte, lid uint16) error {
	return q.c.u.AttachMcast(q.handle, gid, lid)
}
func (q *qp) DetachMulticast(gid [16]byte, lid uint16) error {
	return q.c.u.DetachMcast(q.handle, gid, lid)
}

func (q *qp) Close() error {
	if _, err := q.c.u.DestroyQP(q.handle); err != nil && !gone(err) {
		return err
	}
	return errors.Join(q.c.unmapRing(&q.send.ring), q.c.unmapRing(&q.RecvQueue.ring))
}

// gone tells that a device was removed, and the kernel has destroyed all objects with it. What is ours remains to be released.
func gone(err error) bool { return errors.Is(err, syscall.EIO) }

// srq is a shared receive queue.
type srq struct {
	c           *context
	handle, num uint32
	token       uint64
	sge         uint32
	RecvQueue
}

func (p *pd) CreateSRQ(wr, sge, limit uint32) (ib.SRQ, error) {
	s := &srq{c: p.c, token: p.c.tokens.Add(1)}
	in := abi.CreateSRQ{UserHandle: s.token, PDHandle: p.handle, MaxWR: wr, MaxSGE: sge, SRQLimit: limit}
	var answer rxe.CreateSRQResp
	r, err := p.c.u.CreateSRQ(in, uverbs.Driver{Out: bytesOf(&answer)})
	if err != nil {
		return nil, err
	}
	s.handle, s.num = r.SRQHandle, answer.SRQNum
	if s.ring, err = p.c.mapRing(answer.MI, recvFixed); err != nil {
		p.c.u.DestroySRQ(s.handle)
		return nil, err
	}
	s.sge = min(r.MaxSGE, s.ring.room(recvFixed)/sgeBytes)
	return s, nil
}

func (s *srq) Num() uint32           { return s.num }
func (s *srq) Token() uint64         { return s.token }
func (s *srq) Cap() (wr, sge uint32) { return s.ring.capacity(), s.sge }

// Modify of the size has the driver copy what is in the ring into another.
func (s *srq) Modify(mask, wr, limit uint32) error {
	in := abi.ModifySRQ{SRQHandle: s.handle, AttrMask: mask, MaxWR: wr, SRQLimit: limit}
	var at rxe.MmapInfo
	if err := s.c.u.ModifySRQ(in, bytesOf(&at)); err != nil || mask&uint32(abi.SRQAttrMaxWR) == 0 {
		return err
	}
	now, err := s.c.mapRing(at, recvFixed)
	if err != nil {
		return err
	}
	old := s.ring
	s.ring = now
	return s.c.unmapRing(&old)
}

func (s *srq) Query() (wr, sge, limit uint32, err error) {
	r, err := s.c.u.QuerySRQ(s.handle)
	return r.MaxWR, r.MaxSGE, r.SRQLimit, err
}

func (s *srq) Close() error {
	if _, err := s.c.u.DestroySRQ(s.handle); err != nil && !gone(err) {
		return err
	}
	return s.c.unmapRing(&s.ring)
}
