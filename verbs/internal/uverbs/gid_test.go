package uverbs

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"testing"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

var gids = []abi.GIDEntry{
	{GID: [16]byte{0xfe, 0x80, 15: 1}, PortNum: 1, GIDType: uint32(abi.GIDTypeRoCEv2), NetdevIfindex: 2},
	{GID: [16]byte{10: 0xff, 0xff, 10, 0, 2, 15}, GIDIndex: 1, PortNum: 1, GIDType: uint32(abi.GIDTypeRoCEv2), NetdevIfindex: 2},
}

func table(es []abi.GIDEntry) []byte {
	var b []byte
	for i := range es {
		b = append(b, BytesOf(&es[i])...)
	}
	return b
}

func TestGIDs(t *testing.T) {
	c, f := start(t)
	f.respond = func(_, resp []byte) error {
		binary.NativeEndian.PutUint64(resp[copy(resp, table(gids))+2*32:], 2) // after four entries
		return nil
	}
	got, err := c.GIDs(4)
	if err != nil || !slices.Equal(got, gids) {
		t.Errorf("got %+v, %v", got, err)
	}
	q := f.command
	if u16(q, 0) != 24+4*16 || int(u16(q, 0)) != len(q) || u16(q, 2) != 0 || u16(q, 4) != 5 || u16(q, 6) != 4 || u32(q, 16) != 14 {
		t.Errorf("header % x", q[:24])
	}
	for i, want := range [][4]uint64{
		{0, 8, 1, 32}, {1, 4, 1, 0}, {2, 4 * 32, 1, address(f.resp)}, {3, 8, 1, address(f.resp[4*32:])},
	} {
		a := q[24+16*i:]
		if got := [4]uint64{uint64(u16(a, 0)), uint64(u16(a, 2)), uint64(u16(a, 4)), u64(a, 8)}; got != want {
			t.Errorf("attribute %d is %#x, want %#x", i, got, want)
		}
	}
	if got, err := c.GIDs(0); len(got) > 0 || err != nil {
		t.Errorf("a device without GIDs: %v, %v", got, err)
	}
	if _, err := c.GIDs(1 << 20); err != nil || len(f.resp) != maxGIDs*32+8 {
		t.Errorf("a large table: %d bytes, %v", len(f.resp), err)
	}
}

func TestGID(t *testing.T) {
	c, f := start(t)
	f.respond = func(request, resp []byte) error {
		if len(request) != 24+4*16 || u16(request, 4) != 6 || u64(request, 32) != 1 || u64(request, 48) != 1 {
			return syscall.EINVAL
		}
		copy(resp, table(gids[1:]))
		return nil
	}
	if got, err := c.GID(1, 1); err != nil || got != gids[1] {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestGIDErrors(t *testing.T) {
	c, f := start(t)
	f.respond = func(_, _ []byte) error { return syscall.ENOTTY }
	if _, err := c.GIDs(4); !errors.Is(err, syscall.ENOTTY) {
		t.Errorf("old kernel: %v", err)
	}
	if _, err := c.GID(1, 1); !errors.Is(err, syscall.ENOTTY) {
		t.Errorf("old kernel: %v", err)
	}
	f.respond = func(_, resp []byte) error {
		binary.NativeEndian.PutUint64(resp[4*32:], 5)
		return nil
	}
	if _, err := c.GIDs(4); !errors.Is(err, syscall.EPROTO) {
		t.Errorf("more entries than fit: %v", err)
	}
	c.Close()
	if _, err := c.GID(1, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestGIDPrefixes(t *testing.T) {
	b := table(gids)
	for n := range b {
		if got, err := decodeGIDs(b[:n], 2); !errors.Is(err, syscall.EPROTO) {
			t.Errorf("two entries in %d bytes: %v, %v", n, got, err)
		}
	}
}

func FuzzGIDs(f *testing.F) {
	f.Add(table(gids), uint64(2))
	f.Add([]byte{}, uint64(1)<<63)
	f.Fuzz(func(t *testing.T, b []byte, count uint64) {
		es, err := decodeGIDs(b, count)
		if err == nil && (uint64(len(es)) != count || string(table(es)) != string(b[:32*count])) {
			t.Errorf("% x, %d: %+v", b, count, es)
		}
	})
}
