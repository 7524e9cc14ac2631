package auto

import (
	"bytes"
	"errors"
	"testing"
)

func TestAddress(t *testing.T) {
	all := appendAddress(appendAddress(nil, "tcp", []byte("address")), "shm", nil)
	addrs, err := parseAddresses(all)
	if err != nil || len(addrs) != 2 || string(addrs["tcp"]) != "address" || addrs["shm"] == nil || len(addrs["shm"]) != 0 {
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
		for name, addr := range addrs {
			total += 2 + len(name) + len(addr)
		}
		if total > len(b) {
			t.Errorf("%d bytes of addresses in %x", total, b)
		}
	})
}
