package auto

import (
	"bytes"
	"errors"
	"testing"
)

func TestCard(t *testing.T) {
	card := appendCard(appendCard(nil, "tcp", []byte("address")), "shm", nil)
	addrs, err := parseCard(card)
	if err != nil || len(addrs) != 2 || string(addrs["tcp"]) != "address" || addrs["shm"] == nil || len(addrs["shm"]) != 0 {
		t.Errorf("%v, %v", addrs, err)
	}
}

// TestCardPrefixes: a prefix is malformed, or ends behind a transport.
func TestCardPrefixes(t *testing.T) {
	first := appendCard(nil, "tcp", []byte("address"))
	card := appendCard(bytes.Clone(first), "rdma", []byte{1, 2})
	for i := range card {
		if _, err := parseCard(card[:i]); i != 0 && i != len(first) && !errors.Is(err, errCard) {
			t.Errorf("%d of %d bytes: %v", i, len(card), err)
		}
	}
}

func FuzzCard(f *testing.F) {
	f.Add(appendCard(appendCard(nil, "tcp", []byte("address")), "rdma", nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		addrs, err := parseCard(b)
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
