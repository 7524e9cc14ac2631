//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// srq is struct ibv_srq.
type srq struct {
	ctx     *context
	ptr     uintptr
	token   uint64
	wr, sge uint32
	recvQueue
}

func (p *pd) CreateSRQ(wr, sge, limit uint32) (ib.SRQ, error) {
	x := p.ctx
	s := &srq{ctx: x, token: x.newToken()}
	a := &ibv.SRQInitAttr{SRQContext: uintptr(s.token), Attr: ibv.SRQAttr{MaxWR: wr, MaxSGE: sge, SRQLimit: limit}}
	var err error
	s.ptr, err = x.lib.create("ibv_create_srq", func() uintptr { return x.lib.createSRQ(p.ptr, a) })
	if err != nil {
		return nil, err
	}
	s.wr, s.sge = a.Attr.MaxWR, a.Attr.MaxSGE // as granted
	s.recvQueue.init(x.lib, "ibv_post_srq_recv", &x.ibvCtx.Ops.PostSRQRecv, s.ptr, s.sge)
	return s, nil
}

// Num returns 0: the library has a number only for shared receive queues of XRC.
func (s *srq) Num() uint32           { return 0 }
func (s *srq) Token() uint64         { return s.token }
func (s *srq) Cap() (wr, sge uint32) { return s.wr, s.sge }

func (s *srq) Modify(mask, wr, limit uint32) error {
	a := &ibv.SRQAttr{MaxWR: wr, SRQLimit: limit}
	return s.ctx.lib.do("ibv_modify_srq", func() int32 { return s.ctx.lib.modifySRQ(s.ptr, a, int32(mask)) })
}

func (s *srq) Query() (wr, sge, limit uint32, err error) {
	a := new(ibv.SRQAttr)
	err = s.ctx.lib.do("ibv_query_srq", func() int32 { return s.ctx.lib.querySRQ(s.ptr, a) })
	return a.MaxWR, a.MaxSGE, a.SRQLimit, err
}

func (s *srq) Close() error {
	return s.ctx.lib.do("ibv_destroy_srq", func() int32 { return s.ctx.lib.destroySRQ(s.ptr) })
}
