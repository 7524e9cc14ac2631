package shm

import (
	"bytes"
	"testing"
	"time"
)

// TestCopier: the copy is right whether it is timed or not, and whether it goes past the caches or not.
func TestCopier(t *testing.T) {
	for _, n := range []int{0, 1, 100, nearBytes, nearBytes + 1, sampleBytes - 1, sampleBytes, sampleBytes + 1, 3*sampleBytes + 7} {
		var c Copier
		for i := range 3 * sampleEvery {
			from, to := make([]byte, n), make([]byte, n+64)
			for j := range from {
				from[j] = byte(i + j + j>>8)
			}
			c.distance = distance(i % 3)
			c.Copy(to[:n], from)
			if !bytes.Equal(to[:n], from) || !bytes.Equal(to[n:], make([]byte, 64)) {
				t.Fatalf("copy %d of %d bytes is wrong", i, n)
			}
		}
	}
}

// TestCopierDistance: the fastest of the samples of one round decides, and only after all of them have been taken. A time between
// the two bounds changes nothing, except that a core whose distance is unknown counts as near.
func TestCopierDistance(t *testing.T) {
	for _, first := range []distance{unknown, near, far} {
		between := first // what a time between the two bounds decides at the beginning
		if first == unknown {
			between = near
		}
		c := Copier{distance: first}
		for k, x := range []struct {
			fastest time.Duration
			want    distance
		}{
			{nearTime, between}, {farTime, between}, {farTime + 1, far}, {farTime, far}, {nearTime, far},
			{nearTime - 1, near}, {nearTime, near}, {farTime, near}, {farTime + 1, far},
		} {
			before := c.distance
			for i := range uint(samplesPerRound) {
				if c.distance != before {
					t.Errorf("from %v, round %d: the distance is %v after %d samples", first, k, c.distance, i)
				}
				duration := x.fastest
				if i != 1 {
					duration += farTime
				}
				c.sample(i, duration)
			}
			if c.distance != x.want {
				t.Errorf("from %v, round %d: the distance is %v after %v", first, k, c.distance, x.fastest)
			}
		}
	}
}

// TestCopierNear: copies to a core that is known to be near are not timed.
func TestCopierNear(t *testing.T) {
	var c Copier
	c.AssumeNear()
	from, to := make([]byte, sampleBytes), make([]byte, sampleBytes)
	for i := range 2 * sampleEvery {
		if c.willSample(sampleEvery) {
			t.Errorf("copy %d is to be timed", i)
		}
		if c.Copy(to, from); c.distance != near || c.fastest != 0 {
			t.Errorf("copy %d was timed: %v, distance %v", i, c.fastest, c.distance)
		}
	}
}

// TestCopierWillSample: it is known in advance which copies are timed.
func TestCopierWillSample(t *testing.T) {
	for _, k := range []uint{0, 1, 5, sampleEvery} {
		for start := range uint(2 * sampleEvery) {
			c := Copier{copies: start}
			said, from := c.willSample(k), make([]byte, nearBytes+1)
			c.fastest = time.Hour // a sample is less
			for range max(k, 1) {
				c.Copy(from, from)
			}
			if timed := c.fastest != time.Hour; timed != said {
				t.Errorf("after %d copies, and %d before the next call: willSample is %v", start, k, said)
			}
		}
	}
}
