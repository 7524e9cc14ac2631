package blocks

import (
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
)

// TestReuse: a block that was returned is used again for every length of its class. A block never
// is shorter than wanted, nor more than twice as long, unless it is of the shortest.
func TestReuse(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 127, 128, 129, 4096, 4097, smallest << 15} {
		var p Pool
		p.SetLimit(1 << 30)
		b := p.Get(n)
		if len(b) != n || cap(b) > max(2*n, smallest) {
			t.Errorf("%d bytes: a block of %d, %d in all", n, len(b), cap(b))
		}
		p.Put(b)
		for _, m := range []int{n, cap(b), cap(b)/2 + 1} {
			again := p.Get(m)
			if len(again) != m || &again[0] != &b[0] {
				t.Errorf("%d bytes after %d: another block, of %d", m, n, len(again))
			}
			p.Put(again)
		}
		if p.idle != cap(b) {
			t.Errorf("%d bytes: %d of %d are idle", n, p.idle, cap(b))
		}
	}
}

// TestLongest: a block that is longer than those of all classes is not kept, and has no room
// besides.
func TestLongest(t *testing.T) {
	var p Pool
	b := p.Get(smallest<<15 + 1)
	if len(b) != cap(b) {
		t.Errorf("%d of %d bytes", len(b), cap(b))
	}
	if p.Put(b); p.idle != 0 {
		t.Errorf("%d bytes are idle", p.idle)
	}
	if b := p.Get(0); b != nil {
		t.Errorf("a block of %d bytes for an empty message", len(b))
	}
	p.Put(nil)
}

// TestLimit: free blocks of other sizes are dropped when they have more bytes than the limit.
func TestLimit(t *testing.T) {
	for _, limit := range []int{64, 63} {
		var p Pool
		p.SetLimit(limit)
		p.Put(p.Get(64))
		p.Get(128)
		if want := limit / 64 * 64; p.idle != want {
			t.Errorf("limit %d: %d bytes are idle, want %d", limit, p.idle, want)
		}
	}
}

// TestAllocs: a steady flow of messages allocates nothing.
func TestAllocs(t *testing.T) {
	var p Pool
	if n := alloctest.Count(100, func() { p.Put(p.Get(100)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
