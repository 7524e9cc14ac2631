//go:build linux

package messages

import (
	"testing"
	"time"

	"github.com/ibrun/ibrun/verbs"
)

// TestReceivesOwnReserve: without an SRQ there is a slot for each that is reserved, windows leave
// two slots for each peer, and a peer that is dismissed gives back what it does not hold.
func TestReceivesOwnReserve(t *testing.T) {
	_, pd := openPD(t)
	const peers = 4
	due := map[*Peer]bool{} // whose windows have grown
	s := &Receives{Slots: Slots{PD: pd, Bytes: 64, Limit: BlockSlots}, Pool: 1000, Peers: peers, Window: 64,
		SendCredit: func(p *Peer) { due[p] = true }}
	defer s.Unmap()
	all := make([]Peer, peers)
	for i := range all {
		if err := s.Admit(&all[i]); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			s.GrowWindow(&all[i])
		}
	}
	total := 0
	for i := range all {
		if w := all[i].In.Window; w < InitialWindow || due[&all[i]] != (w > InitialWindow) {
			t.Errorf("peer %d has a window of %d; a credit is due: %v", i, w, due[&all[i]])
		}
		total += int(all[i].In.Window) + 1
	}
	if s.Reserved != total || total > s.Total() || all[0].In.Window < MinGrownWindow {
		t.Errorf("%d slots are reserved of %d, and peers have %d: %+v", s.Reserved, s.Total(), total, all)
	}
	all[0].Held = 1
	s.Dismiss(&all[0])
	held := s.Reserved
	if s.Drop(&all[0], 0); s.Reserved != held-1 || all[0].Held != 0 {
		t.Errorf("%d slots are reserved after %d; %+v", s.Reserved, held, all[0])
	}
	if s.Reserve(s.Total()) == nil {
		t.Error("more slots are reserved than there are")
	}
}

// TestReceivesWithoutConnection: without a connection, the slots of a peer are free.
func TestReceivesWithoutConnection(t *testing.T) {
	_, pd := openPD(t)
	s := &Receives{Slots: Slots{PD: pd, Bytes: 64, Limit: BlockSlots}, Pool: 8, Peers: 1}
	defer s.Unmap()
	p := new(Peer)
	if err := s.Admit(p); err != nil {
		t.Fatal(err)
	}
	slot, _ := s.Take()
	free := len(s.Free)
	s.Post(p, slot)
	s.postBorrowed([]Borrowed{{p, 1}, {p, 2}})
	if len(s.Free) != free+3 || s.Incomplete() || p.Posted() != 0 {
		t.Errorf("%d slots are free, want %d", len(s.Free), free+3)
	}
	if got := s.Completed(p, &verbs.WC{ID: 1 << 32}); got != Stale {
		t.Errorf("a completion without a connection is %v", got)
	}
	if err := s.PostAgain(time.Second); err != nil || s.Retry.Refusals != 0 {
		t.Errorf("%v, %+v", err, s.Retry)
	}
}
