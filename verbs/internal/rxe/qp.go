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
	send, recv  ring
	bell        *uverbs.Doorbell
}

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
		p.c.unmapRing(&q.send)
		return nil, err
	}
	q.cap = ib.Cap{
		SendWR: q.send.capacity(), RecvWR: q.recv.capacity(),
		// What the driver says it can take must also have room in the slots.
		SendSGE: min(r.MaxSendSGE, q.send.room(sendFixed)/sgeBytes),
		RecvSGE: min(r.MaxRecvSGE, q.recv.room(recvFixed)/sgeBytes),
		Inline:  min(r.MaxInlineData, q.send.room(sendFixed)),
	}
	q.bell = p.c.u.NewDoorbell(q.handle)
	return q, nil
}

// use maps the rings.
func (q *qp) use(at *rxe.CreateQPResp, shared bool) (err error) {
	if q.send, err = q.c.mapRing(at.SQ, sendFixed); err != nil || shared {
		return err
	}
	q.recv, err = q.c.mapRing(at.RQ, recvFixed)
	return err
}

func (q *qp) Num() uint32   { return q.num }
func (q *qp) Token() uint64 { return q.token }
func (q *qp) Cap() ib.Cap   { return q.cap }

func (q *qp) Post(wr *ib.SendWR) error {
	slot := q.send.free()
	if slot == nil {
		return ib.ErrFull
	}
	q.send.putSend(slot, wr)
	q.send.filled()
	return nil
}

// Publish and Doorbell are the two halves of Ring.
func (q *qp) Publish()        { q.send.publish() }
func (q *qp) Doorbell() error { return q.bell.Ring() }

func (q *qp) Ring() error {
	q.Publish()
	return q.Doorbell()
}

func (q *qp) Recv(id uint64, sge []ib.SGE) error { return q.recv.postRecv(id, sge) }

// postRecv queues a receive.
func (r *ring) postRecv(id uint64, sge []ib.SGE) error {
	slot := r.free()
	if slot == nil {
		return ib.ErrFull
	}
	r.putRecv(slot, id, sge)
	r.filled()
	r.publish()
	return nil
}

func (q *qp) Modify(a *ib.QPAttr, mask uint32) error {
	err := q.c.u.ModifyQP(modify(q.handle, a, mask))
	if err == nil && mask&uint32(abi.QPAttrState) != 0 && a.State == uint8(abi.QPSReset) {
		q.send.rewind() // the driver has forgotten what was published
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
	return errors.Join(q.c.unmapRing(&q.send), q.c.unmapRing(&q.recv))
}

// gone tells that a device was removed, and the kernel has destroyed all objects with it. What is ours remains to be released.
func gone(err error) bool { return errors.Is(err, syscall.EIO) }

// srq is a shared receive queue.
type srq struct {
	c           *context
	handle, num uint32
	token       uint64
	sge         uint32
	ring        ring
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

func (s *srq) Num() uint32                        { return s.num }
func (s *srq) Token() uint64                      { return s.token }
func (s *srq) Cap() (wr, sge uint32)              { return s.ring.capacity(), s.sge }
func (s *srq) Recv(id uint64, sge []ib.SGE) error { return s.ring.postRecv(id, sge) }

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
