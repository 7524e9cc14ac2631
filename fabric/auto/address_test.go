package auto

import (
	"bytes"
	"errors"
	"testing"
)

func TestAddress(t *testing.T) {
	all := appendAddress(appendAddress(nil, "tcp", []byte("address")), "shm", nil)
	addrs, err := parseAddresses(all)
	if err != nil || len(addrs) != 2 || addrs[0].name != "tcp" || string(addrs[0].addr) != "address" || addrs[1].name != "shm" ||
		len(addrs[1].addr) != 0 {
		t.Errorf("%v, %v", addrs, err)
	}
}

// TestAddressPrefixes: a prefix is malformed, unless it ends behind a transport.
func TestAddressPrefixes(t *testing.T) {
	first := appendAddress(nil, "tcp", []byte("address"))
	all := appendAddress(bytes.Clone(first), "rdma", []byte{1, 2})
	for i := range all {
		if _, err := parseAddresses(all[:i]); i != 0 && i != len(first) && !errors.Is(err, errAddress) {
			t.Errorf("%d of %d bytes: %v", i, len(all), err)
		}
	}
}

func FuzzAddress(f *testing.F) {
	f.Add(appendAddress(appendAddress(nil, "tcp", []byte("address")), "rdma", nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		addrs, err := parseAddresses(b)
		if err != nil {
			return
		}
		total := 0
		for _, a := range addrs {
			total += 2 + len(a.name) + len(a.addr)
		}
		if total != len(b) {
			t.Errorf("%d bytes of addresses in %x", total, b)
		}
	})
}
