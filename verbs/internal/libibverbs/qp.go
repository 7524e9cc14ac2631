//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// qp is struct ibv_qp.
type qp struct {
	ctx    *context
	ptr    uintptr
	num    uint32
	token  uint64
	cap    ib.Cap
	sendCQ *cq
	sendQueue
	recvQueue
}

func (p *pd) CreateQP(init ib.QPInit) (ib.QP, error) {
	x := p.ctx
	q := &qp{ctx: x, token: x.newToken(), sendCQ: init.SendCQ.(*cq)}
	a := &ibv.QPInitAttr{
		QPContext: uintptr(q.token), SendCQ: q.sendCQ.ptr, RecvCQ: init.RecvCQ.(*cq).ptr,
		Cap: queueCap(init.Cap), QPType: uint32(init.Type), SQSigAll: int32(bool8(init.SignalAll)),
	}
	if init.SRQ != nil {
		a.SRQ = init.SRQ.(*srq).ptr
	}
	var err error
	q.ptr, err = x.lib.create("ibv_create_qp", func() uintptr { return x.lib.createQP(p.ptr, a) })
	if err != nil {
		return nil, err
	}
	q.num = structAt[ibv.QP](q.ptr).QPNum
	q.cap = fromQueueCap(&a.Cap) // as granted
	q.sendQueue.init(x, q.ptr, q.num, q.cap, init.SignalAll)
	q.recvQueue.init(x.lib, "ibv_post_recv", &x.ibvCtx.Ops.PostRecv, q.ptr, q.cap.RecvSGE)
	q.sendCQ.addQP(q.space)
	return q, nil
}

func (q *qp) Num() uint32   { return q.num }
func (q *qp) Token() uint64 { return q.token }
func (q *qp) Cap() ib.Cap   { return q.cap }

// Modify to the state RESET empties the queues. Completions from before may still be polled, so the send queue is no longer
// counted.
func (q *qp) Modify(a *ib.QPAttr, mask uint32) error {
	c := attributes(a)
	err := q.ctx.lib.do("ibv_modify_qp", func() int32 { return q.ctx.lib.modifyQP(q.ptr, c, int32(mask)) })
	if err == nil && uverbs.QPAttrMask(mask)&uverbs.QPAttrState != 0 && uverbs.QPState(a.State) == uverbs.QPSReset {
		q.space.untracked.Store(true)
	}
	return err
}

func (q *qp) Query(mask uint32) (ib.QPAttr, error) {
	c, init := new(ibv.QPAttr), new(ibv.QPInitAttr)
	err := q.ctx.lib.do("ibv_query_qp", func() int32 { return q.ctx.lib.queryQP(q.ptr, c, int32(mask), init) })
	if err != nil {
		return ib.QPAttr{}, err
	}
	a := fromAttributes(c)
	a.SignalAll = init.SQSigAll != 0
	return a, nil
}

func (q *qp) AttachMulticast(gid [16]byte, lid uint16) error {
	return q.ctx.lib.do("ibv_attach_mcast", func() int32 { return q.ctx.lib.attachMcast(q.ptr, &gid, lid) })
}

func (q *qp) DetachMulticast(gid [16]byte, lid uint16) error {
	return q.ctx.lib.do("ibv_detach_mcast", func() int32 { return q.ctx.lib.detachMcast(q.ptr, &gid, lid) })
}

func (q *qp) Close() error {
	err := q.ctx.lib.do("ibv_destroy_qp", func() int32 { return q.ctx.lib.destroyQP(q.ptr) })
	if err == nil {
		q.sendCQ.removeQP(q.space)
	}
	return err
}
