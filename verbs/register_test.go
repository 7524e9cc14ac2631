//go:build linux

package verbs_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/opener"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
	"github.com/ibrun/ibrun/verbs/internal/rxetest"
)

// TestRelaxedOrdering registers memory with a flag that a device may ignore, on a device that refuses it instead. The flag must
// be dropped, and from then on not be tried again. A refusal for another reason must stay one.
func TestRelaxedOrdering(t *testing.T) {
	k, r := newFake(t)
	register := func(a verbs.Access) error {
		_, err := r.pd.Register(make([]byte, 8), a)
		return err
	}
	must(t, register(verbs.LocalWrite|verbs.RelaxedOrdering))
	if n := k.RefusedRegistrations(); n != 0 {
		t.Errorf("%d registrations were refused, want 0", n)
	}
	k.RefuseAccess(uint32(verbs.RelaxedOrdering | verbs.RemoteRead))
	if err := register(verbs.RemoteRead | verbs.RelaxedOrdering); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("registration that is refused without the flag too: %v, want ErrInvalid", err)
	}
	before := k.RefusedRegistrations()
	for range 3 {
		must(t, register(verbs.LocalWrite|verbs.RelaxedOrdering))
	}
	if n := k.RefusedRegistrations() - before; n != 1 {
		t.Errorf("%d registrations were refused, want 1: the first that tries the flag", n)
	}
}

// dmabufs is a provider whose devices register dma-bufs.
type dmabufs struct {
	ib.Provider
	last *dmabuf
	err  error
}

// dmabuf is the arguments of a registration.
type dmabuf struct {
	fd                   int
	offset, length, iova uint64
	access               verbs.Access
}

type dmabufContext struct {
	ib.Context
	*dmabufs
}

type dmabufPD struct {
	ib.PD
	*dmabufs
}

func (d *dmabufs) Open(dev ib.Device) (ib.Context, error) {
	x, err := d.Provider.Open(dev)
	return &dmabufContext{x, d}, err
}

func (x *dmabufContext) AllocPD() (ib.PD, error) {
	pd, err := x.Context.AllocPD()
	return &dmabufPD{pd, x.dmabufs}, err
}

func (p *dmabufPD) RegDmabuf(fd int, offset, length, iova uint64, access uint32) (ib.MR, error) {
	p.last = &dmabuf{fd, offset, length, iova, verbs.Access(access)}
	if p.err != nil {
		return nil, p.err
	}
	return p.PD.RegMR(offset, length, iova, access)
}

// TestRegisterDmabuf registers a part of a dma-buf, and wrong ones.
func TestRegisterDmabuf(t *testing.T) {
	k := rxetest.New()
	d := &dmabufs{Provider: rxe.On(k)}
	dev, err := opener.Open(d, k.Device())
	must(t, err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	must(t, err)
	page := uint64(os.Getpagesize())
	want := dmabuf{fd: 7, offset: page + 8, length: 3 * page, iova: 1<<40 + 8, access: verbs.LocalWrite | verbs.RemoteWrite}
	mr, err := pd.RegisterDmabuf(want.fd, want.offset, want.length, want.iova, want.access)
	must(t, err)
	if *d.last != want {
		t.Errorf("registered %+v, want %+v", *d.last, want)
	}
	if at := mr.Remote(16).Addr; at != want.iova+16 || mr.Len() != int(want.length) {
		t.Errorf("a region of %d bytes, its byte 16 at %#x; want %d and %#x", mr.Len(), at, want.length, want.iova+16)
	}
	for _, bad := range []dmabuf{
		{offset: 0, length: 8, iova: 8, access: verbs.LocalWrite},
		{offset: 0, length: 0, iova: 0, access: verbs.LocalWrite},
		{offset: 0, length: 8, iova: 0, access: verbs.RemoteWrite},
	} {
		d.last = nil
		_, err := pd.RegisterDmabuf(0, bad.offset, bad.length, bad.iova, bad.access)
		if !errors.Is(err, verbs.ErrInvalid) || d.last != nil {
			t.Errorf("%+v: %v, want ErrInvalid before the call", bad, err)
		}
	}
	for errno, kind := range map[syscall.Errno]error{
		syscall.EOPNOTSUPP: verbs.ErrNotSupported, syscall.EPROTONOSUPPORT: verbs.ErrNotSupported, syscall.EBADF: verbs.ErrInvalid,
		syscall.EINVAL: verbs.ErrInvalid, syscall.ENOMEM: verbs.ErrLimit,
	} {
		d.err = errno
		if _, err := pd.RegisterDmabuf(7, 0, 8, 0, verbs.LocalWrite); !errors.Is(err, kind) || !errors.Is(err, errno) {
			t.Errorf("%v: %v, want %v", errno, err, kind)
		}
	}
	must(t, mr.Close())
}

// TestDmabufNotSupported checks what the error says on a device of Soft-RoCE.
func TestDmabufNotSupported(t *testing.T) {
	_, r := newFake(t)
	_, err := r.pd.RegisterDmabuf(7, 0, 8, 0, verbs.LocalWrite)
	if !errors.Is(err, verbs.ErrNotSupported) {
		t.Fatalf("got %v, want ErrNotSupported", err)
	}
	for _, part := range []string{"dma-buf on rxe0", "provider rxe", "mlx5"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
}
