//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"fmt"
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

var _ ib.DmabufRegistrar = (*pd)(nil)

// pd is struct ibv_pd.
type pd struct {
	ctx *context
	ptr uintptr
}

func (x *context) AllocPD() (ib.PD, error) {
	ptr, err := x.lib.create("ibv_alloc_pd", func() uintptr { return x.lib.allocPD(x.ptr) })
	if err != nil {
		return nil, err
	}
	return &pd{ctx: x, ptr: ptr}, nil
}

func (p *pd) Close() error {
	return p.ctx.lib.do("ibv_dealloc_pd", func() int32 { return p.ctx.lib.deallocPD(p.ptr) })
}

// mr is struct ibv_mr.
type mr struct {
	ctx *context
	ptr uintptr
}

// RegMR calls ibv_reg_mr_iova2, which drops optional access flags that the kernel does not know. An old library that lacks this
// function knows none of these flags. The library marks the pages (madvise) for fork only after ibv_fork_init.
func (p *pd) RegMR(addr, length, iova uint64, access uint32) (ib.MR, error) {
	l := p.ctx.lib
	if l.regMRIova2 == nil && iova != addr {
		return nil, notInLibrary(regMRIova2, regMRIova2Need)
	}
	return p.registered("ibv_reg_mr", func() uintptr {
		if l.regMRIova2 == nil {
			return l.regMR(p.ptr, uintptr(addr), uintptr(length), int32(access&^uint32(uverbs.AccessOptionalRange)))
		}
		return l.regMRIova2(p.ptr, uintptr(addr), uintptr(length), iova, access)
	})
}

// RegDmabuf calls ibv_reg_dmabuf_mr.
func (p *pd) RegDmabuf(fd int, offset, length, iova uint64, access uint32) (ib.MR, error) {
	l := p.ctx.lib
	if l.regDmabufMR == nil {
		return nil, notInLibrary(regDmabufMR, regDmabufMRNeed)
	}
	return p.registered(regDmabufMR, func() uintptr {
		return l.regDmabufMR(p.ptr, offset, uintptr(length), iova, int32(fd), int32(access))
	})
}

// registered makes a call that registers memory.
func (p *pd) registered(call string, f func() uintptr) (ib.MR, error) {
	ptr, err := p.ctx.lib.create(call, f)
	if err != nil {
		return nil, err
	}
	return &mr{ctx: p.ctx, ptr: ptr}, nil
}

func (m *mr) Keys() (lkey, rkey uint32) {
	c := structAt[ibv.MR](m.ptr)
	return c.LKey, c.RKey
}

// Rereg fails if peers are to use another address than the local one: the library's function has no argument for that.
func (m *mr) Rereg(flags uint32, to ib.PD, addr, length, iova uint64, access uint32) error {
	const call = reregMR
	if m.ctx.lib.reregMR == nil {
		return notInLibrary(call, version)
	}
	if uverbs.Rereg(flags)&uverbs.ReregTranslation != 0 && iova != addr {
		return fmt.Errorf("%s: the library cannot map address %#x to %#x for peers: %w", call, addr, iova, syscall.EOPNOTSUPP)
	}
	var domain uintptr
	if to != nil {
		domain = to.(*pd).ptr
	}
	return m.ctx.lib.do(call, func() int32 {
		return m.ctx.lib.reregMR(m.ptr, int32(flags), domain, uintptr(addr), uintptr(length), int32(access))
	})
}

func (m *mr) Close() error {
	return m.ctx.lib.do("ibv_dereg_mr", func() int32 { return m.ctx.lib.deregMR(m.ptr) })
}

// mw is struct ibv_mw.
type mw struct {
	ctx  *context
	ptr  uintptr
	kind uverbs.MWType
}

func (p *pd) AllocMW(kind uint8) (ib.MW, error) {
	const call = "ibv_alloc_mw"
	alloc := p.ctx.ibvCtx.Ops.AllocMW
	if alloc == 0 {
		return nil, noFunction(call)
	}
	ptr, err := p.ctx.lib.create(call, func() uintptr { return invoke(alloc, p.ptr, uintptr(kind)) })
	if err != nil {
		return nil, err
	}
	return &mw{ctx: p.ctx, ptr: ptr, kind: uverbs.MWType(kind)}, nil
}

// RKey reads the key each time, because binding a window of type 1 changes it.
func (m *mw) RKey() uint32 { return structAt[ibv.MW](m.ptr).RKey }

// setRKey stores the key to which a window of type 2 was bound. The library leaves that to the program, and its drivers find the
// window by this key.
func (m *mw) setRKey(key uint32) { structAt[ibv.MW](m.ptr).RKey = key }

func (m *mw) Close() error {
	return m.ctx.lib.do("ibv_dealloc_mw", func() int32 { return int32(invoke(m.ctx.ibvCtx.Ops.DeallocMW, m.ptr)) })
}

// ah is struct ibv_ah.
type ah struct {
	ctx *context
	ptr uintptr
}

func (p *pd) CreateAH(attr ib.AHAttr) (ib.AH, error) {
	a := addressVector(attr)
	ptr, err := p.ctx.lib.create("ibv_create_ah", func() uintptr { return p.ctx.lib.createAH(p.ptr, &a) })
	if err != nil {
		return nil, err
	}
	return &ah{ctx: p.ctx, ptr: ptr}, nil
}

func (a *ah) Close() error {
	return a.ctx.lib.do("ibv_destroy_ah", func() int32 { return a.ctx.lib.destroyAH(a.ptr) })
}
