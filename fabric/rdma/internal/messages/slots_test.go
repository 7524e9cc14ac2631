//go:build linux

package messages

import (
	"testing"

	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// openPD opens a simulated device, and allocates a protection domain.
func openPD(t *testing.T) (*verbs.Context, *verbs.PD) {
	dev, err := verbstest.NewSimulatedNetwork().Open("a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return dev, pd
}

// TestSlots: the pool grows by whole blocks up to its limit. Each slot has memory of its own, and
// its scatter/gather entry names that memory.
func TestSlots(t *testing.T) {
	const bytes = 128
	_, pd := openPD(t)
	s := Slots{PD: pd, Bytes: bytes, Limit: 2*BlockSlots + BlockSlots/2}
	defer s.Unmap()
	addrs := map[uint64]bool{}
	var taken []uint32
	for {
		slot, ok := s.Take()
		if !ok {
			break
		}
		taken = append(taken, slot)
		mem, sge := s.Mem(slot), s.SGE(slot, 16)
		if len(mem) != bytes || cap(mem) != bytes || sge.Len != 16 || addrs[sge.Addr] {
			t.Fatalf("slot %d: %d bytes, %+v", slot, len(mem), sge)
		}
		addrs[sge.Addr] = true
		mem[0], mem[bytes-1] = byte(slot), byte(slot)
	}
	if len(taken) != 2*BlockSlots || !s.Full() || s.Total() != len(taken) {
		t.Errorf("%d slots were taken of %d, full: %v", len(taken), s.Total(), s.Full())
	}
	for _, slot := range taken {
		if mem := s.Mem(slot); mem[0] != byte(slot) || mem[bytes-1] != byte(slot) {
			t.Errorf("slot %d has the bytes of another one", slot)
		}
		s.Give(slot)
	}
	if slot, ok := s.Take(); !ok || slot != taken[len(taken)-1] {
		t.Errorf("slot %d, %v; want the one that was returned last", slot, ok)
	}
}

// TestSlotsRefused: once the device registers no more memory, it is not asked again.
func TestSlotsRefused(t *testing.T) {
	dev, pd := openPD(t)
	s := Slots{PD: pd, Bytes: 64, Limit: 4 * BlockSlots}
	defer s.Unmap()
	if _, ok := s.Take(); !ok {
		t.Fatal("no slot")
	}
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	for len(s.Free) > 0 {
		s.Take()
	}
	if slot, ok := s.Take(); ok || s.Limit != BlockSlots || s.Total() != BlockSlots {
		t.Errorf("slot %d, %v: %d of %d", slot, ok, s.Total(), s.Limit)
	}
}
