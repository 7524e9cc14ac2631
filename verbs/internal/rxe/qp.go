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
	ctx         *context
	handle, num uint32
	token       uint64
	cap         ib.Cap
	send        ib.SendRing
	recv        ib.RecvRing // a zero ring if the pair has an SRQ
}

var (
	_ ib.HasSendRing = (*qp)(nil)
	_ ib.HasRecvRing = (*qp)(nil)
	_ ib.HasRecvRing = (*srq)(nil)
)

func (p *pd) CreateQP(init ib.QPInit) (ib.QP, error) {
	q := &qp{ctx: p.ctx, token: p.ctx.tokens.Add(1)}
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
	var resp rxe.CreateQPResp
	r, err := p.ctx.uctx.CreateQP(in, uverbs.Driver{Out: uverbs.BytesOf(&resp)})
	if err != nil {
		return nil, err
	}
	q.handle, q.num = r.QPHandle, r.QPN
	if err := q.mapRings(&resp, in.IsSRQ != 0); err != nil {
		p.ctx.uctx.DestroyQP(q.handle)
		p.ctx.unmap(q.send.Detach())
		return nil, err
	}
	q.cap = ib.Cap{
		SendWR: q.send.Capacity(), RecvWR: q.recv.Capacity(),
		// What the driver granted must also fit into the slots.
		SendSGE: min(r.MaxSendSGE, q.send.MaxSGE()),
		RecvSGE: min(r.MaxRecvSGE, q.recv.MaxSGE()),
		Inline:  min(r.MaxInlineData, q.send.MaxInline()),
	}
	q.send.SetDoorbell(p.ctx.uctx.NewDoorbell(q.handle))
	return q, nil
}

// mapRings maps the send queue, and the receive queue unless the pair has an SRQ.
func (q *qp) mapRings(at *rxe.CreateQPResp, hasSRQ bool) (err error) {
	if q.send, err = mapRing(q.ctx, at.SQ, ib.NewSendRing); err != nil || hasSRQ {
		return err
	}
	q.recv, err = mapRing(q.ctx, at.RQ, ib.NewRecvRing)
	return err
}

// SendRing returns the send queue for posts without an interface call.
func (q *qp) SendRing() *ib.SendRing { return &q.send }

// RecvRing returns the receive queue for posts without an interface call.
func (q *qp) RecvRing() *ib.RecvRing { return &q.recv }

func (q *qp) Num() uint32   { return q.num }
func (q *qp) Token() uint64 { return q.token }
func (q *qp) Cap() ib.Cap   { return q.cap }

func (q *qp) Post(wr *ib.SendWR) error { return q.send.Post(wr) }

func (q *qp) Ring() error {
	q.send.Publish()
	return q.send.RingDoorbell()
}

func (q *qp) Recv(id uint64, sge []ib.SGE) error { return recv(&q.recv, id, sge) }

func (q *qp) RecvList(list []ib.RecvWR) (int, error) { return recvList(&q.recv, list) }

// recv is Recv of a queue pair and of a shared receive queue.
func recv(r *ib.RecvRing, id uint64, sge []ib.SGE) error {
	if !r.Post(id, sge) {
		return ib.ErrFull
	}
	return nil
}

// recvList is RecvList of a queue pair and of a shared receive queue.
func recvList(r *ib.RecvRing, list []ib.RecvWR) (int, error) {
	n := r.PostList(list)
	if n < len(list) {
		return n, ib.ErrFull
	}
	return n, nil
}

func (q *qp) Modify(a *ib.QPAttr, mask uint32) error {
	err := q.ctx.uctx.ModifyQP(modifyCommand(q.handle, a, mask))
	if err == nil && mask&uint32(abi.QPAttrState) != 0 && a.State == uint8(abi.QPSReset) {
		q.send.Rewind() // the driver has dropped what was published
	}
	return err
}

func (q *qp) Query(mask uint32) (ib.QPAttr, error) {
	r, err := q.ctx.uctx.QueryQP(q.handle, mask)
	if err != nil {
		return ib.QPAttr{}, err
	}
	return fromQuery(&r), nil
}

func (q *qp) AttachMulticast(gid [16]byte, lid uint16) error {
	return q.ctx.uctx.AttachMcast(q.handle, gid, lid)
}
func (q *qp) DetachMulticast(gid [16]byte, lid uint16) error {
	return q.ctx.uctx.DetachMcast(q.handle, gid, lid)
}

func (q *qp) Close() error {
	if _, err := q.ctx.uctx.DestroyQP(q.handle); err != nil && !deviceRemoved(err) {
		return err
	}
	return errors.Join(q.ctx.unmap(q.send.Detach()), q.ctx.unmap(q.recv.Detach()))
}

// deviceRemoved reports whether a command failed because the device was removed. The kernel has destroyed all of its objects
// then. The process must still release its own mappings.
func deviceRemoved(err error) bool { return errors.Is(err, syscall.EIO) }

// srq is a shared receive queue.
type srq struct {
	ctx         *context
	handle, num uint32
	token       uint64
	maxSGE      uint32
	ring        ib.RecvRing
}

func (p *pd) CreateSRQ(wr, sge, limit uint32) (ib.SRQ, error) {
	s := &srq{ctx: p.ctx, token: p.ctx.tokens.Add(1)}
	in := abi.CreateSRQ{UserHandle: s.token, PDHandle: p.handle, MaxWR: wr, MaxSGE: sge, SRQLimit: limit}
	var resp rxe.CreateSRQResp
	r, err := p.ctx.uctx.CreateSRQ(in, uverbs.Driver{Out: uverbs.BytesOf(&resp)})
	if err != nil {
		return nil, err
	}
	s.handle, s.num = r.SRQHandle, resp.SRQNum
	if s.ring, err = mapRing(p.ctx, resp.MI, ib.NewRecvRing); err != nil {
		p.ctx.uctx.DestroySRQ(s.handle)
		return nil, err
	}
	s.maxSGE = min(r.MaxSGE, s.ring.MaxSGE())
	return s, nil
}

func (s *srq) Num() uint32           { return s.num }
func (s *srq) Token() uint64         { return s.token }
func (s *srq) Cap() (wr, sge uint32) { return s.ring.Capacity(), s.maxSGE }

// RecvRing returns the queue for posts without an interface call.
func (s *srq) RecvRing() *ib.RecvRing { return &s.ring }

func (s *srq) Recv(id uint64, sge []ib.SGE) error { return recv(&s.ring, id, sge) }

func (s *srq) RecvList(list []ib.RecvWR) (int, error) { return recvList(&s.ring, list) }

// Modify maps the new ring if the size changes. The driver has copied the receives into it.
func (s *srq) Modify(mask, wr, limit uint32) error {
	in := abi.ModifySRQ{SRQHandle: s.handle, AttrMask: mask, MaxWR: wr, SRQLimit: limit}
	var at rxe.MmapInfo
	if err := s.ctx.uctx.ModifySRQ(in, uverbs.BytesOf(&at)); err != nil || mask&uint32(abi.SRQAttrMaxWR) == 0 {
		return err
	}
	resized, err := mapRing(s.ctx, at, ib.NewRecvRing)
	if err != nil {
		return err
	}
	old := s.ring.Detach()
	s.ring = resized
	return s.ctx.unmap(old)
}

func (s *srq) Query() (wr, sge, limit uint32, err error) {
	r, err := s.ctx.uctx.QuerySRQ(s.handle)
	return r.MaxWR, r.MaxSGE, r.SRQLimit, err
}

func (s *srq) Close() error {
	if _, err := s.ctx.uctx.DestroySRQ(s.handle); err != nil && !deviceRemoved(err) {
		return err
	}
	return s.ctx.unmap(s.ring.Detach())
}
