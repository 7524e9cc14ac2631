package shm

import (
	"bytes"
	"testing"
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

// TestCopierFar: the fastest of the samples of one time decides, and only once all have been taken.
func TestCopierFar(t *testing.T) {
	var c Copier
	const slow, fast = farPace + 1, farPace
	for k, want := range []bool{true, false, true} {
		for i := range uint(samples) {
			if i != 0 && c.Far() != (k == 1) {
				t.Errorf("time %d: far is %v after %d samples", k, c.Far(), i)
			}
			pace := slow
			if k == 1 && i == 1 {
				pace = fast
			}
			c.sample(i, pace)
		}
		if c.Far() != want {
			t.Errorf("time %d: far is %v", k, c.Far())
		}
	}
}

// TestCopierTimed: which copies are timed is known before.
func TestCopierTimed(t *testing.T) {
	var c Copier
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
