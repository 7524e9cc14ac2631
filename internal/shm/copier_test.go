package shm

import (
	"bytes"
	"testing"
	"time"
)

// TestCopier: the copy is right whether its time is taken or not, and whether it goes past the caches or not.
func TestCopier(t *testing.T) {
	for _, n := range []int{0, 1, 100, sampleBytes - 1, sampleBytes, sampleBytes + 1, 3*sampleBytes + 7} {
		var c Copier
		for i := range 3 * sampleEvery {
			from, to := make([]byte, n), make([]byte, n+64)
			for j := range from {
				from[j] = byte(i + j + j>>8)
			}
			c.far = i%2 == 0
			c.Copy(to[:n], from)
			if !bytes.Equal(to[:n], from) || !bytes.Equal(to[n:], make([]byte, 64)) {
				t.Fatalf("copy %d of %d bytes is wrong", i, n)
			}
		}
	}
}

// TestCopierFar: the fastest of the last samples decides, and only once all have been taken.
func TestCopierFar(t *testing.T) {
	var c Copier
	b := make([]byte, 4096)
	for i := range 3 * sampleEvery {
		c.Copy(b, b)
		k := i % sampleEvery
		if k < samples-1 {
			c.pace = 2 * farPace // as if all so far had been slow
			if k == samples-2 && i > sampleEvery {
				c.pace = time.Nanosecond // one was not
			}
		}
		if k == samples-1 && i > sampleEvery && c.Far() {
			t.Fatalf("far after copy %d, with a fast one among the samples", i)
		}
	}
	for _, x := range []struct {
		n, k uint
		want bool
	}{
		{0, 0, true}, {samples - 1, 0, true}, {samples, 0, false}, {samples, 5, false}, {sampleEvery - 5, 5, false},
		{sampleEvery - 4, 5, true}, {sampleEvery, 0, true}, {sampleEvery + samples, 1, false},
	} {
		if c.n = x.n; c.timed(x.k) != x.want {
			t.Errorf("after %d copies, of which the last or next %d matter: timed is %v", x.n, x.k, !x.want)
		}
	}
}
