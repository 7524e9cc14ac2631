package verbs

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// MR is a memory region: memory that the device may access. Its methods may be called by any goroutine at any time.
type MR struct {
	base
	ib ib.MR

	mu     sync.Mutex // guards the fields below
	buf    []byte     // keeps the slice alive; nil for memory that Go does not own
	length uint64
	iova   uint64
}

// Register registers a slice. The region keeps the slice alive until Close, and the Go runtime does not move it. Peers and
// receives may change its contents at any time. The memory must not contain Go pointers; bytes do not.
//
// Registered memory is locked, and RLIMIT_MEMLOCK limits locked memory: the text of [ErrMemlock] contains the limit, the need and
// the remedy.
func (pd *PD) Register(buf []byte, access Access) (*MR, error) {
	addr := memaddr.Of(buf)
	return pd.register(buf, addr, uint64(len(buf)), addr, access)
}

// RegisterAddr registers length bytes at an address. They must be mapped until the region is closed, and must not belong to the
// Go heap: memory of mmap(2) or of C. Peers address them from iova on, which differs from addr by whole pages.
func (pd *PD) RegisterAddr(addr uintptr, length uint64, iova uint64, access Access) (*MR, error) {
	return pd.register(nil, uint64(addr), length, iova, access)
}

func (pd *PD) register(buf []byte, addr, length, iova uint64, access Access) (*MR, error) {
	mr := &MR{base: pd.ctx.newBase(kindMR, &pd.base), buf: buf, length: length, iova: iova}
	return mr.register("register memory", access, func(access uint32) (ib.MR, error) {
		m, err := pd.ib.RegMR(addr, length, iova, access)
		return m, explainLimit(err, addr, length)
	})
}

// RegisterDmabuf registers length bytes of a dma-buf from offset on: memory that is not the program's, such as that of a GPU. fd
// is its descriptor, which may be closed afterwards. Peers address the memory from iova on, which differs from offset by whole
// pages. It returns [ErrNotSupported] if the library, the kernel or the device cannot; Soft-RoCE cannot.
func (pd *PD) RegisterDmabuf(fd int, offset, length, iova uint64, access Access) (*MR, error) {
	const op = "register a dma-buf"
	registrar, ok := pd.ib.(ib.DmabufRegistrar)
	if !ok {
		return nil, pd.refuse(op, ErrNotSupported, "the provider %s has no function for it: it needs a device whose kernel driver can "+
			"register dma-bufs, such as mlx5, through libibverbs", pd.ctx.provider)
	}
	if page := uint64(os.Getpagesize()); offset%page != iova%page {
		return nil, pd.refuse(op, ErrInvalid, "offset %#x and address %#x do not differ by whole pages of %d bytes", offset, iova, page)
	}
	mr := &MR{base: pd.ctx.newBase(kindMR, &pd.base), length: length, iova: iova}
	return mr.register(op, access, func(access uint32) (ib.MR, error) {
		return registrar.RegDmabuf(fd, offset, length, iova, access)
	})
}

// register opens a region by a call of the provider. If a driver refuses optional access flags, which it should ignore, this call
// and all later ones on the device are made without them.
func (mr *MR) register(op string, access Access, register func(access uint32) (ib.MR, error)) (*MR, error) {
	if err := checkAccess(mr.ctx, op, access); err != nil {
		return nil, err
	}
	if mr.length == 0 {
		return nil, mr.refuse(op, ErrInvalid, "the memory is empty")
	}
	err := mr.open(op, mr.Close, func() (err error) {
		required := access &^ optionalAccess
		if !mr.ctx.refusesOptional.Load() && access != required {
			mr.ib, err = register(uint32(access))
			if kindOf(err) != ErrNotSupported && !errors.Is(err, syscall.EINVAL) {
				return err
			}
		}
		if mr.ib, err = register(uint32(required)); err == nil && access != required {
			mr.ctx.refusesOptional.Store(true)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return mr, nil
}

// explainLimit returns a MemlockError if the limit on locked memory is the reason for err and the provider did not detect that.
func explainLimit(err error, addr, length uint64) error {
	if kindOf(err) == ErrLimit && errors.Is(err, syscall.ENOMEM) {
		if m := uverbs.Memlock(addr, length); m != nil {
			return m
		}
	}
	return err
}

// checkAccess checks that a has LocalWrite if it needs it.
func checkAccess(c *Context, op string, a Access) error {
	if a&(RemoteWrite|RemoteAtomic) != 0 && a&LocalWrite == 0 {
		return c.refuse(op, ErrInvalid, "%v needs LocalWrite as well", a)
	}
	return nil
}

// Close deregisters the memory. It returns [ErrBusy] while a memory window is bound to the region. Outstanding requests that use
// the region fail. A second Close does nothing.
func (mr *MR) Close() error {
	return mr.shutdown(func() error {
		err := mr.ib.Close()
		if errors.Is(err, syscall.EINVAL) { // rxe returns EINVAL where others return EBUSY
			err = fmt.Errorf("%w: a memory window is bound to it (%w)", syscall.EBUSY, err)
		}
		return err
	})
}

// LKey returns the key by which local requests name the region.
func (mr *MR) LKey() uint32 { l, _ := mr.ib.Keys(); return l }

// RKey returns the key by which peers name the region.
func (mr *MR) RKey() uint32 { _, r := mr.ib.Keys(); return r }

// Len returns the size of the region in bytes.
func (mr *MR) Len() int {
	mr.mu.Lock()
	defer mr.mu.Unlock()
	return int(mr.length)
}

// SGE returns a list entry with n bytes of the region from offset off on, for local requests. It panics if they are not in the
// region, as slicing does.
func (mr *MR) SGE(off, n int) SGE {
	mr.mu.Lock()
	defer mr.mu.Unlock()
	mr.check(off, n)
	return SGE{Addr: mr.iova + uint64(off), Len: uint32(n), LKey: mr.LKey()}
}

// Remote returns the address and key of the region from offset off on, for requests of peers.
func (mr *MR) Remote(off int) Remote {
	mr.mu.Lock()
	defer mr.mu.Unlock()
	mr.check(off, 0)
	return Remote{Addr: mr.iova + uint64(off), RKey: mr.RKey()}
}

// check panics if n bytes from offset off on are not in the region. The caller must hold mu.
func (mr *MR) check(off, n int) {
	const maxLen = 1<<32 - 1 // of an SGE
	if off < 0 || n < 0 || n > maxLen || uint64(off)+uint64(n) > mr.length {
		panic(fmt.Sprintf("verbs: %d bytes from offset %d are outside a memory region of %d bytes", n, off, mr.length))
	}
}

// SetAccess changes the access rights of the region. The keys may change. It returns [ErrNotSupported] if the device cannot, as
// rxe before Linux 6.3.
func (mr *MR) SetAccess(access Access) error {
	if err := checkAccess(mr.ctx, "re-register a memory region", access); err != nil {
		return err
	}
	return mr.rereg(abi.ReregAccess, nil, nil, access)
}

// SetPD moves the region to another protection domain of the same device, as SetAccess does.
func (mr *MR) SetPD(pd *PD) error { return mr.rereg(abi.ReregPD, pd, nil, 0) }

// SetMemory changes the memory of the region, as SetAccess does. The region no longer keeps the previous slice alive.
func (mr *MR) SetMemory(buf []byte, access Access) error {
	if err := checkAccess(mr.ctx, "re-register a memory region", access); err != nil {
		return err
	}
	return mr.rereg(abi.ReregTranslation|abi.ReregAccess, nil, buf, access)
}

// rereg re-registers the region: what selects its domain, its memory and its access rights.
func (mr *MR) rereg(what abi.Rereg, pd *PD, buf []byte, access Access) error {
	const op = "re-register a memory region"
	if err := mr.enter(op); err != nil {
		return err
	}
	defer mr.leave()
	var domain ib.PD
	var newUses []*base
	if pd != nil {
		newUses = []*base{&pd.base}
		if err := mr.ctx.addRefs(op, newUses); err != nil {
			return err
		}
		defer mr.ctx.creating.Done()
		domain = pd.ib
	}
	addr := memaddr.Of(buf)
	err := mr.ib.Rereg(uint32(what), domain, addr, uint64(len(buf)), addr, uint32(access))
	err = mr.fail(op, explainLimit(err, addr, uint64(len(buf))))
	switch {
	case err != nil:
		mr.ctx.dropRefs(newUses)
		return err
	case pd != nil:
		mr.ctx.mu.Lock()
		mr.uses, newUses = newUses, mr.uses
		mr.ctx.mu.Unlock()
		mr.ctx.dropRefs(newUses)
	case buf != nil:
		mr.mu.Lock()
		mr.buf, mr.length, mr.iova = buf, uint64(len(buf)), addr
		mr.mu.Unlock()
	}
	return nil
}
