package contextids

import (
	"slices"
	"testing"
	"testing/synctest"
)

// newIDs returns ids of which 4 are reserved.
func newIDs() *IDs {
	s := new(IDs)
	s.Init(4)
	return s
}

// TestTakeFree: an agreement takes the lowest id that all ranks have offered, in a new generation,
// and a freed id is offered again.
func TestTakeFree(t *testing.T) {
	s := newIDs()
	for n, want := range []struct{ id, generation uint32 }{{4, 1}, {5, 1}, {4, 8}} {
		var set [Words]uint64
		s.Begin(7)
		if !s.Offer(7, set[:]) {
			t.Fatal("the only agreement may not offer the ids")
		}
		id, generation, ok := s.Take(set[:])
		if s.End(7); !ok || id != want.id || generation != want.generation {
			t.Errorf("take %d: id %d of generation %d, %v; want %d of %d", n, id, generation, ok, want.id, want.generation)
		}
		switch n {
		case 0:
			s.Settle(id, 7) // that of another rank
		case 1:
			s.Free(4)
			s.Free(0) // reserved
		}
	}
	s.Begin(7)
	if _, _, ok := s.Take(make([]uint64, Words)); ok {
		t.Error("took an id that no rank has offered")
	}
	if !s.Offer(7, nil) {
		t.Error("the ids cannot be offered again")
	}
}

// TestTurns: agreements on context ids take place in the order of their priorities. Those that wait
// for their turn sleep.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, order := newIDs(), []uint64(nil)
		for _, p := range []uint64{3, 1, 2} {
			s.Begin(p)
		}
		for _, p := range []uint64{2, 3} {
			go func() {
				s.Await(p)
				order = append(order, p)
				s.End(p)
			}()
		}
		synctest.Wait() // both are blocked
		if len(order) != 0 {
			t.Errorf("%v go before 1", order)
		}
		s.Await(1)
		s.End(1)
		synctest.Wait()
		if !slices.Equal(order, []uint64{2, 3}) {
			t.Errorf("the order is %v", order)
		}
	})
}

// TestTurnAfterOffer: an agreement waits until another one, which goes after it, does not offer the
// ids any more.
func TestTurnAfterOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, went := newIDs(), false
		s.Begin(2)
		if !s.Offer(2, nil) {
			t.Fatal("the only agreement may not offer the ids")
		}
		s.Begin(1)
		go func() {
			s.Await(1)
			went = true
		}()
		if synctest.Wait(); went || s.Offer(1, nil) {
			t.Error("two agreements offer the same ids")
		}
		s.Withdraw()
		if synctest.Wait(); !went {
			t.Error("the agreement that waited was not woken")
		}
	})
}
