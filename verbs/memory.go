package verbs

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// PD is a protection domain: queue pairs use the memory regions of their own domain only. Its methods may be called by any
// goroutine at any time.
type PD struct {
	base
	ib ib.PD
}

// AllocPD makes a protection domain.
func (c *Context) AllocPD() (*PD, error) {
	const op = "make a protection domain"
	pd := &PD{base: c.child(kindPD)}
	err := pd.open(op, pd.Close, func() (err error) {
		pd.ib, err = c.ib.AllocPD()
		return err
	})
	if err != nil {
		return nil, err
	}
	return pd, nil
}

// Close closes the domain. While something in it is open it is [ErrBusy]. A second Close does nothing.
func (pd *PD) Close() error { return pd.shut(pd.ib.Close) }

// MR is a memory region: memory that the device may access. Its methods may be called by any goroutine at any time.
type MR struct {
	base
	ib ib.MR

	mu     sync.Mutex // guards the rest
	buf    []byte     // kept alive, or nil for memory that Go does not own
	length uint64
	iova   uint64
}

// Register registers a slice. The region keeps the slice alive until its Close, and the Go runtime does not move it; its
// contents may change at any time by what peers and receives write. The slice must not contain pointers of Go, which holds
// for bytes.
//
// Memory is locked, which RLIMIT_MEMLOCK limits: [ErrMemlock] says limit, need and remedy.
func (pd *PD) Register(buf []byte, access Access) (*MR, error) {
	addr := memaddr.Of(buf)
	return pd.register(buf, addr, uint64(len(buf)), addr, access)
}

// RegisterAddr registers length bytes at an address, which must be mapped until the Close of the region and are not Go's:
// memory of mmap(2) or of C. Peers address them from iova on, which differs from addr by whole pages.
func (pd *PD) RegisterAddr(addr uintptr, length uint64, iova uint64, access Access) (*MR, error) {
	return pd.register(nil, uint64(addr), length, iova, access)
}

func (pd *PD) register(buf []byte, addr, length, iova uint64, access Access) (*MR, error) {
	const op = "register memory"
	if err := checkAccess(pd.ctx, op, access); err != nil {
		return nil, err
	}
	if length == 0 {
		return nil, pd.refuse(op, ErrInvalid, "a memory region has at least one byte")
	}
	mr := &MR{base: pd.ctx.child(kindMR, &pd.base), buf: buf, length: length, iova: iova}
	err := mr.open(op, mr.Close, func() (err error) {
		mr.ib, err = pd.ib.RegMR(addr, length, iova, uint32(access))
		return explainLimit(err, addr, length)
	})
	if err != nil {
		return nil, err
	}
	return mr, nil
}

// explainLimit says so if the limit on locked memory is the reason, where the provider does not.
func explainLimit(err error, addr, length uint64) error {
	if kindOf(err) == ErrLimit && errors.Is(err, syscall.ENOMEM) {
		if m := uverbs.Memlock(addr, length); m != nil {
			return m
		}
	}
	return err
}

func checkAccess(c *Context, op string, a Access) error {
	if a&(RemoteWrite|RemoteAtomic) != 0 && a&LocalWrite == 0 {
		return c.refuse(op, ErrInvalid, "%v needs LocalWrite as well", a)
	}
	return nil
}

// Close ends the registration. While a memory window is bound to it, it is [ErrBusy]. A second Close does nothing. Requests
// that are under way with it fail.
func (mr *MR) Close() error {
	return mr.shut(func() error {
		err := mr.ib.Close()
		if errors.Is(err, syscall.EINVAL) { // which is how rxe says it
			err = fmt.Errorf("%w: a memory window is bound to it (%w)", syscall.EBUSY, err)
		}
		return err
	})
}

// LKey is the key by which local requests name the region.
func (mr *MR) LKey() uint32 { l, _ := mr.ib.Keys(); return l }

// RKey is the key by which peers name the region.
func (mr *MR) RKey() uint32 { _, r := mr.ib.Keys(); return r }

// Len is the size of the region in bytes.
func (mr *MR) Len() int {
	mr.mu.Lock()
	defer mr.mu.Unlock()
	return int(mr.length)
}

// SGE names n bytes of the region from offset off on, for local requests. It panics if they do not lie in the region, as
// slicing does.
func (mr *MR) SGE(off, n int) SGE {
	mr.mu.Lock()
	defer mr.mu.Unlock()
	mr.check(off, n)
	return SGE{Addr: mr.iova + uint64(off), Len: uint32(n), LKey: mr.LKey()}
}

// Remote names the region from offset off on, for the requests of peers.
func (mr *MR) Remote(off int) Remote {
	mr.mu.Lock()
	defer mr.mu.Unlock()
	mr.check(off, 0)
	return Remote{Addr: mr.iova + uint64(off), RKey: mr.RKey()}
}

func (mr *MR) check(off, n int) {
	const most = 1<<32 - 1 // what an SGE can name
	if off < 0 || n < 0 || n > most || uint64(off)+uint64(n) > mr.length {
		panic(fmt.Sprintf("verbs: %d bytes from %d are not in a memory region of %d", n, off, mr.length))
	}
}

// SetAccess changes what may be done to the region. The keys may change. Devices that cannot, among them rxe before Linux
// 6.3, say [ErrNotSupported].
func (mr *MR) SetAccess(access Access) error {
	if err := checkAccess(mr.ctx, "change a memory region", access); err != nil {
		return err
	}
	return mr.rereg(abi.ReregAccess, nil, nil, access)
}

// SetPD moves the region to another protection domain of the same device, as SetAccess does.
func (mr *MR) SetPD(pd *PD) error { return mr.rereg(abi.ReregPD, pd, nil, 0) }

// SetMemory has the region be other memory, as SetAccess does. The slice that was registered is let go.
func (mr *MR) SetMemory(buf []byte, access Access) error {
	if err := checkAccess(mr.ctx, "change a memory region", access); err != nil {
		return err
	}
	return mr.rereg(abi.ReregTranslation|abi.ReregAccess, nil, buf, access)
}

func (mr *MR) rereg(what abi.Rereg, pd *PD, buf []byte, access Access) error {
	const op = "change a memory region"
	if err := mr.enter(op); err != nil {
		return err
	}
	defer mr.leave()
	var domain ib.PD
	var now []*base
	if pd != nil {
		now = []*base{&pd.base}
		if err := mr.ctx.hold(op, now); err != nil {
			return err
		}
		defer mr.ctx.building.Done()
		domain = pd.ib
	}
	addr := memaddr.Of(buf)
	err := mr.ib.Rereg(uint32(what), domain, addr, uint64(len(buf)), addr, uint32(access))
	err = mr.fail(op, explainLimit(err, addr, uint64(len(buf))))
	switch {
	case err != nil:
		mr.ctx.release(now)
		return err
	case pd != nil:
		mr.ctx.mu.Lock()
		mr.uses, now = now, mr.uses
		mr.ctx.mu.Unlock()
		mr.ctx.release(now)
	case buf != nil:
		mr.mu.Lock()
		mr.buf, mr.length, mr.iova = buf, uint64(len(buf)), addr
		mr.mu.Unlock()
	}
	return nil
}

// MW is a memory window: a part of a memory region with rights and a key of its own, which [QP.BindMW] sets. Its methods
// may be called by any goroutine at any time.
type MW struct {
	base
	ib  ib.MW
	typ MWType
}

// AllocMW makes a memory window. Devices without them say [ErrNotSupported].
func (pd *PD) AllocMW(t MWType) (*MW, error) {
	const op = "make a memory window"
	mw := &MW{base: pd.ctx.child(kindMW, &pd.base), typ: t}
	err := mw.open(op, mw.Close, func() (err error) {
		mw.ib, err = pd.ib.AllocMW(uint8(t))
		return err
	})
	if err != nil {
		return nil, err
	}
	return mw, nil
}

// heldBy notes to which pair the window is bound now, which is held already.
func (mw *MW) heldBy(pair []*base) {
	c := mw.ctx
	c.mu.Lock()
	before := mw.uses[1:]
	mw.uses = append(mw.uses[:1:1], pair...)
	c.mu.Unlock()
	c.release(before)
}

// Close closes the window; its key is of no more use. A second Close does nothing.
func (mw *MW) Close() error { return mw.shut(mw.ib.Close) }

// RKey is the key by which peers name the window, as of the last bind that was posted.
func (mw *MW) RKey() uint32 { return mw.ib.RKey() }
