package shm

import (
	"bytes"
	"testing"
)

// TestCopier: the copy is right whether it is timed or not, and whether it goes past the caches or not.
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

// TestCopierFar: the fastest of the samples of one round decides, and only after all of them have been taken.
func TestCopierFar(t *testing.T) {
	var c Copier
	const slow, fast = farTime + 1, farTime
	for k, want := range []bool{true, false, true} {
		for i := range uint(samplesPerRound) {
			if i != 0 && c.Far() != (k == 1) {
				t.Errorf("round %d: far is %v after %d samples", k, c.Far(), i)
			}
			duration := slow
			if k == 1 && i == 1 {
				duration = fast
			}
			c.sample(i, duration)
		}
		if c.Far() != want {
			t.Errorf("round %d: far is %v", k, c.Far())
		}
	}
}

// TestCopierSampledNear: it is known in advance which copies are timed.
func TestCopierSampledNear(t *testing.T) {
	var c Copier
	for _, x := range []struct {
		n, k uint
		want bool
	}{
		{0, 0, true}, {samplesPerRound - 1, 0, true}, {samplesPerRound, 0, false}, {samplesPerRound, 5, false},
		{sampleEvery - 5, 5, false},
		{sampleEvery - 4, 5, true}, {sampleEvery, 0, true}, {sampleEvery + samplesPerRound, 1, false},
	} {
		if c.copies = x.n; c.sampledNear(x.k) != x.want {
			t.Errorf("after %d copies, and %d around them: sampledNear is %v", x.n, x.k, !x.want)
		}
	}
}
