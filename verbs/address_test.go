package verbs

import (
	"errors"
	"net/netip"
	"testing"
)

var someAddress = Address{Type: RC, MTU: MTU1024, RDAtomic: 16, LID: 3, QPN: 0x123456, PSN: 0xabcdef, QKey: 0x11111111,
	GID: netip.MustParseAddr("::ffff:10.0.0.1")}

func TestAddress(t *testing.T) {
	ib := someAddress
	ib.Type, ib.GID = UD, netip.Addr{}
	for _, want := range []Address{someAddress, ib} {
		b, err := want.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var got Address
		if err := got.UnmarshalBinary(b); err != nil || got != want {
			t.Errorf("%+v was decoded as %+v, %v", want, got, err)
		}
	}
}

func TestAddressPrefixes(t *testing.T) {
	b, err := someAddress.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		var a Address
		if err := a.UnmarshalBinary(b[:n]); !errors.Is(err, ErrInvalid) || a != (Address{}) {
			t.Errorf("%d of %d bytes: %+v, %v", n, len(b), a, err)
		}
	}
	for i := range b {
		bad := append([]byte(nil), b...)
		bad[i] ^= byte(1 + i%255)
		if err := new(Address).UnmarshalBinary(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("byte %d is %#x in place of %#x, and was not detected: %v", i, bad[i], b[i], err)
		}
	}
}

func FuzzAddress(f *testing.F) {
	b, err := someAddress.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var a, again Address
		if a.UnmarshalBinary(b) != nil {
			return
		}
		out, err := a.MarshalBinary()
		if err != nil || again.UnmarshalBinary(out) != nil || again != a {
			t.Errorf("%+v was decoded as %+v, %v", a, again, err)
		}
	})
}
