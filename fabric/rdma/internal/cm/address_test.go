package cm

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

func sampleAddress() Address {
	rail := verbs.Address{
		Type: verbs.UD, MTU: verbs.MTU1024, RDAtomic: 16, QPN: 17, PSN: 3, QKey: 5,
		GID: netip.MustParseAddr("::ffff:10.0.2.15"),
	}
	first := RailAddress{Address: rail, N: 2, Partitions: [MaxPartitions]Partition{{0x8001, 17, 18}, {0x7fff, 19, 20}}}
	second := RailAddress{Address: rail, N: 1, Partitions: [MaxPartitions]Partition{{Key: 0xffff}}}
	return Address{Incarnation: 77, Revision: 78, Link: Link{400_000, true, false, 120}, Rails: []RailAddress{first, second}}
}

func TestAddressPrefixes(t *testing.T) {
	a := sampleAddress()
	b := a.Append(nil)
	for n := range b {
		if _, err := ParseAddress(b[:n]); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if got, err := ParseAddress(b); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v, %v", got, err)
	}
	if maxAddressBytes > 255 { // its length is one byte of a datagram
		t.Errorf("an address may have %d bytes", maxAddressBytes)
	}
}

func FuzzAddress(f *testing.F) {
	a := sampleAddress()
	f.Add(a.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := ParseAddress(b); err == nil && !bytes.Equal(a.Append(nil), b) {
			t.Errorf("%x became %x", b, a.Append(nil))
		}
	})
}
