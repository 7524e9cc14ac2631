package shm

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestStreamIsCopy holds Stream against copy, for all short lengths and some long ones, wherever both begin in a
// cache line.
func TestStreamIsCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	src := make([]byte, 30000)
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for n := 0; n < 600; n++ {
		if n >= 400 {
			n += 37
		}
		from, to := r.IntN(128), 64+r.IntN(128)
		got, want := bytes.Repeat([]byte{0xa5}, n+256), bytes.Repeat([]byte{0xa5}, n+256)
		Stream(got[to:to+n], src[from:from+n])
		copy(want[to:], src[from:from+n])
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes from %d to %d:\n%x, want\n%x", n, from, to, got, want)
		}
	}
}
