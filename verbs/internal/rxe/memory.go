package rxe

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/rxe"
	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// pd is a protection domain.
type pd struct {
	ctx    *context
	handle uint32
}

func (p *pd) Close() error { return p.ctx.uctx.DeallocPD(p.handle) }

func (p *pd) RegMR(addr, length, iova uint64, access uint32) (ib.MR, error) {
	in := abi.RegMR{Start: addr, Length: length, HCAVA: iova, PDHandle: p.handle, AccessFlags: access}
	r, err := p.ctx.uctx.RegMR(in, uverbs.Driver{})
	if err != nil {
		return nil, err
	}
	m := &mr{ctx: p.ctx, handle: r.MRHandle}
	m.keys.Store(packKeys(r.LKey, r.RKey))
	return m, nil
}

// mr is a memory region.
type mr struct {
	ctx    *context
	handle uint32
	keys   atomic.Uint64
}

// packKeys packs both keys into one word, so that they can be replaced atomically.
func packKeys(lkey, rkey uint32) uint64 { return uint64(lkey)<<32 | uint64(rkey) }

func (m *mr) Keys() (lkey, rkey uint32) {
	k := m.keys.Load()
	return uint32(k >> 32), uint32(k)
}

func (m *mr) Rereg(flags uint32, domain ib.PD, addr, length, iova uint64, access uint32) error {
	in := abi.ReregMR{MRHandle: m.handle, Flags: flags, Start: addr, Length: length, HCAVA: iova, AccessFlags: access}
	if domain != nil {
		in.PDHandle = domain.(*pd).handle
	}
	r, err := m.ctx.uctx.ReregMR(in, uverbs.Driver{})
	if err == nil {
		m.keys.Store(packKeys(r.LKey, r.RKey))
	}
	return err
}

func (m *mr) Close() error { return m.ctx.uctx.DeregMR(m.handle) }

var (
	_ ib.RKeySetter  = (*mw)(nil)
	_ ib.HasAHNumber = (*ah)(nil)
)

// mw is a memory window.
type mw struct {
	ctx    *context
	handle uint32
	rkey   atomic.Uint32
}

func (p *pd) AllocMW(kind uint8) (ib.MW, error) {
	r, err := p.ctx.uctx.AllocMW(abi.AllocMW{PDHandle: p.handle, MWType: kind}, uverbs.Driver{})
	if err != nil {
		return nil, err
	}
	w := &mw{ctx: p.ctx, handle: r.MWHandle}
	w.rkey.Store(r.RKey)
	return w, nil
}

func (w *mw) RKey() uint32       { return w.rkey.Load() }
func (w *mw) SetRKey(key uint32) { w.rkey.Store(key) }
func (w *mw) Close() error       { return w.ctx.uctx.DeallocMW(w.handle) }

// ah is an address handle.
type ah struct {
	ctx         *context
	handle, num uint32
}

func (p *pd) CreateAH(a ib.AHAttr) (ib.AH, error) {
	var resp rxe.CreateAHResp
	h, err := p.ctx.uctx.CreateAH(abi.CreateAH{PDHandle: p.handle, Attr: ahAttr(&a)}, uverbs.Driver{Out: uverbs.BytesOf(&resp)})
	if err != nil {
		return nil, err
	}
	if resp.AHNum == 0 {
		p.ctx.uctx.DestroyAH(h)
		return nil, fmt.Errorf("the kernel returned an address handle without a number; datagrams need Linux 5.16 or later: %w",
			syscall.EOPNOTSUPP)
	}
	return &ah{ctx: p.ctx, handle: h, num: resp.AHNum}, nil
}

func (a *ah) AHNumber() uint32 { return a.num }

func (a *ah) Close() error { return a.ctx.uctx.DestroyAH(a.handle) }
