//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// TestMissing checks the errors if the library, a function of it, or a driver is missing.
func TestMissing(t *testing.T) {
	_, noLibrary := load("libibverbs.so.0.none")
	_, oldLibrary := load("libc.so.6")
	f := newFake(t)
	p := &Provider{library: func() (*library, error) { return f.lib, nil }}
	_, noDriver := p.Open(ib.Device{Name: "fake1"})
	for _, c := range []struct {
		err  error
		want []string
	}{
		{noLibrary, []string{"libibverbs.so.0.none is missing", "libibverbs1", "ibverbs-providers", "cannot open"}},
		{oldLibrary, []string{"ibv_ack_async_event", "rdma-core 12"}},
		{noDriver, []string{"driver", "fake1", "ibverbs-providers"}},
	} {
		var m *MissingError
		if !errors.As(c.err, &m) || !errors.Is(c.err, errors.ErrUnsupported) {
			t.Errorf("got %v, want a MissingError that is ErrUnsupported", c.err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(c.err.Error(), w) {
				t.Errorf("%q does not contain %q", c.err, w)
			}
		}
	}
}

// TestInstalled opens a device that does not exist with the installed library, if there is one.
func TestInstalled(t *testing.T) {
	_, err := New().Open(ib.Device{Name: "no such device"})
	var m *MissingError
	if !errors.As(err, &m) && !errors.Is(err, syscall.ENOSYS) { // ENOSYS: the kernel has no RDMA
		t.Errorf("got %v, want a MissingError", err)
	}
	t.Log(err)
	if l, err := load(soname); err == nil {
		t.Logf("the library has %s: %t, %s: %t, %s: %t, %s: %t", reregMR, l.reregMR != nil, regMRIova2, l.regMRIova2 != nil,
			queryGIDTable, l.queryGIDTable != nil, regDmabufMR, l.regDmabufMR != nil)
	}
}

func TestErrno(t *testing.T) {
	f := newFake(t)
	x := f.context()
	if _, err := x.AllocPD(); !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "ibv_alloc_pd") {
		t.Errorf("null: got %v, want ibv_alloc_pd and EPERM", err)
	}
	if key, err := x.QueryPKey(1, 0); key != 0x7f00 || err != nil {
		t.Errorf("P_Key %#x, %v; want 0x7f00", key, err)
	}
	if _, err := x.QueryPKey(1, 22); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("negative result without errno: got %v, want EINVAL", err)
	}
	_, q := f.pair(ib.Cap{})
	if err := q.Notify(true); !errors.Is(err, syscall.EIO) {
		t.Errorf("positive result: got %v, want EIO", err)
	}
	if err := (&mr{ctx: x}).Rereg(uint32(uverbs.ReregTranslation), nil, 4096, 1, 0, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("re-registered at another address: got %v, want ErrUnsupported", err)
	}
	if _, err := (&pd{ctx: x}).AllocMW(1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("function that the driver lacks: got %v, want ErrUnsupported", err)
	}
}

func TestReadEvents(t *testing.T) {
	f := newFake(t)
	x := f.context()
	p, q := f.pair(ib.Cap{})
	s, err := (&pd{ctx: x}).CreateSRQ(1, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	ch := &channel{ctx: x}
	buf := make([]byte, 20)
	if n, err := ch.ReadEvents(buf); n != 0 || err != syscall.EAGAIN {
		t.Errorf("no event: got %d, %v; want EAGAIN itself", n, err)
	}
	f.compEvents = []uint64{7, 8, 9}
	n, err := ch.ReadEvents(buf) // space for two and a half
	if n != 16 || err != nil || binary.NativeEndian.Uint64(buf) != 7 || binary.NativeEndian.Uint64(buf[8:]) != 8 ||
		f.ackedComp != 2 {
		t.Errorf("read %d bytes %x, %v, %d acknowledged; want tokens 7 and 8", n, buf, err, f.ackedComp)
	}
	if n, err := ch.ReadEvents(buf); n != 8 || err != nil || f.ackedComp != 3 {
		t.Errorf("read %d, %v, %d acknowledged; want the third", n, err, f.ackedComp)
	}

	types := []uverbs.EventType{uverbs.EventCQErr, uverbs.EventQPFatal, uverbs.EventSRQLimitReached, uverbs.EventPortErr}
	want := []uint64{q.Token(), p.Token(), s.Token(), 2}
	for i, e := range []uintptr{q.ptr, p.ptr, address(&f.srq), 0xffff_0000_0000_0002} {
		f.asyncEvents = append(f.asyncEvents, ibv.AsyncEvent{Element: e, EventType: uint32(types[i])})
	}
	buf = make([]byte, 100)
	if n, err = x.ReadEvents(buf); n != 64 || err != nil || !slices.Equal(f.ackedAsync, types) {
		t.Fatalf("read %d bytes, %v, acknowledged %v; want 64 and %v", n, err, f.ackedAsync, types)
	}
	for i := range types {
		token, typ := binary.NativeEndian.Uint64(buf[16*i:]), binary.NativeEndian.Uint32(buf[16*i+8:])
		if token != want[i] || uverbs.EventType(typ) != types[i] {
			t.Errorf("event %d: type %d of %d, want %d of %d", i, typ, token, types[i], want[i])
		}
	}
	if _, err := x.ReadEvents(buf); err != syscall.EAGAIN {
		t.Errorf("no more events: got %v, want EAGAIN", err)
	}
}

// TestAttributes converts every attribute to C's layout and back.
func TestAttributes(t *testing.T) {
	a := ib.QPAttr{
		State: 1, CurState: 2, PathMTU: 3, PathMigState: 4, QKey: 5, RQPSN: 6, SQPSN: 7, DestQPN: 8, Access: 9,
		Cap: ib.Cap{SendWR: 10, RecvWR: 11, SendSGE: 12, RecvSGE: 13, Inline: 14},
		AH: ib.AHAttr{DGID: [16]byte{15, 16}, FlowLabel: 17, SGIDIndex: 18, HopLimit: 19, TrafficClass: 20,
			Global: true, DLID: 21},
		AltAH:     ib.AHAttr{SL: 22, SrcPathBits: 23, StaticRate: 24, Port: 25},
		PKeyIndex: 26, AltPKey: 27, EnSQDAsyncNotify: true, SQDraining: true, MaxRdAtomic: 28, MaxDestRdAtomic: 29, MinRNRTimer: 30,
		Port: 31, AltPort: 32, Timeout: 33, AltTimeout: 34, RetryCnt: 35, RNRRetry: 36,
	}
	if got := fromAttributes(attributes(&a)); got != a {
		t.Errorf("got  %+v\nwant %+v", got, a)
	}
}
