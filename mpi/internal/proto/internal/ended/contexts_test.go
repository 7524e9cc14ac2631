package ended

import "testing"

// generation returns the context of a generation of the number 5.
func generation(n uint32) uint32 { return n<<NumberBits | 5 }

// TestEnd: a context that ends ends those before it, and no later one, also where generations wrap
// around. Another number has contexts of its own.
func TestEnd(t *testing.T) {
	const generations = 1 << (32 - NumberBits)
	for _, at := range []uint32{0, 7, generations - 1} {
		var c Contexts
		if c.IsStale(generation(at)) || c.HasEnded(generation(at)) || c.IsFreed(generation(at)) {
			t.Errorf("generation %d has ended before it was used", at)
		}
		c.End(Ending{generation(at), false})
		for n, want := range map[uint32]bool{at - 2: true, at - 1: true, at: true, at + 1: false, at + 2: false} {
			x := generation(n)
			if c.IsStale(x) != want || c.HasEnded(x) != want {
				t.Errorf("generation %d has ended; that %d has is %v", at, n, !want)
			}
			if freed := want && n != at; c.IsFreed(x) != freed {
				t.Errorf("generation %d has ended; that %d was freed is %v", at, n, !freed)
			}
		}
		if c.IsStale(generation(at) + 1) {
			t.Error("a context with another number has ended")
		}
	}
}

// TestExpect: while processes agree on the next context of a number, messages of all contexts with
// this number may be of the next one. Only the context that was used last is known to have ended.
func TestExpect(t *testing.T) {
	for _, freed := range []bool{false, true} {
		var c Contexts
		c.End(Ending{generation(3), freed})
		c.Expect(5)
		for n := range uint32(6) {
			if c.IsStale(generation(n)) || c.HasEnded(generation(n)) != (n == 3) || c.IsFreed(generation(n)) != (freed && n == 3) {
				t.Errorf("generation %d: stale %v, ended %v, freed %v", n, c.IsStale(generation(n)), c.HasEnded(generation(n)),
					c.IsFreed(generation(n)))
			}
		}
	}
}

// TestAgreed: when the next context is known, all before it have ended, and so has this one if the
// process does not join it. The context that was used last keeps what is known of it.
func TestAgreed(t *testing.T) {
	for _, joins := range []bool{false, true} {
		for _, next := range []uint32{4, 9} {
			var c Contexts
			c.End(Ending{generation(3), false})
			c.Expect(5)
			last, ok := c.Agreed(generation(next), joins)
			if !ok || last != (Ending{generation(3), false}) {
				t.Errorf("joins %v: %+v was the last one, %v", joins, last, ok)
			}
			if c.IsStale(generation(next)) == joins || !c.IsStale(generation(next-1)) || c.IsStale(generation(next+1)) {
				t.Errorf("joins %v: not all before generation %d have ended", joins, next)
			}
			if known := joins && next == 4; c.IsFreed(generation(3)) == known {
				t.Errorf("joins %v: that generation 3 was freed before %d is %v", joins, next, known)
			}
		}
	}
	var c Contexts
	if _, ok := c.Agreed(generation(1), true); ok {
		t.Error("a context had ended before the first one")
	}
}
