package shm

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestCopyNonTemporal compares CopyNonTemporal with copy, for all short lengths and some long ones, at any offset in a cache
// line.
func TestCopyNonTemporal(t *testing.T) {
	compareWithCopy(t, func(r *rand.Rand) int { return r.IntN(128) }, CopyNonTemporal)
}

// TestCopyLines compares the assembly, which copies whole lines only, with copy.
func TestCopyLines(t *testing.T) {
	compareWithCopy(t, func(*rand.Rand) int { return 0 }, func(dst, src []byte) {
		whole := len(dst) &^ (lineBytes - 1)
		copyLines(dst[:whole], src[:whole])
		copy(dst[whole:], src[whole:])
	})
}

// compareWithCopy compares f with copy. where chooses the offset of the destination.
func compareWithCopy(t *testing.T, where func(*rand.Rand) int, f func(dst, src []byte)) {
	r := rand.New(rand.NewPCG(1, 2))
	src := make([]byte, 4000)
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for n := 0; n < 3000; n++ {
		if n >= 400 {
			n += 37
		}
		from, to := r.IntN(128), 64+where(r)
		got, want := guarded(n), bytes.Repeat([]byte{0xa5}, n+256)
		f(got[to:to+n], src[from:from+n])
		copy(want[to:], src[from:from+n])
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes from %d to %d:\n%x, want\n%x", n, from, to, got, want)
		}
	}
}

// guarded returns a buffer for n bytes and some more around them, which begins at a cache line: the allocator's blocks of a page
// and more begin there.
func guarded(n int) []byte {
	b := make([]byte, 8192)
	for i := range b {
		b[i] = 0xa5
	}
	return b[:n+256]
}
