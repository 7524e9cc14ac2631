package shm

import (
	"bytes"
	"testing"
	"time"
)

// TestCopier: the copy is right whether it is timed or not, and whether it goes past the caches or not.
func TestCopier(t *testing.T) {
	for _, n := range []int{0, 1, 100, nearBytes, nearBytes + 1, timedBytes - 1, timedBytes, timedBytes + 1, 3*timedBytes + 7} {
		var c Copier
		for i := range 3 * roundCopies {
			from, to := make([]byte, n), make([]byte, n+64)
			for j := range from {
				from[j] = byte(i + j + j>>8)
			}
			c.past = i%2 == 1
			c.Copy(to[:n], from)
			if !bytes.Equal(to[:n], from) || !bytes.Equal(to[n:], make([]byte, 64)) {
				t.Fatalf("copy %d of %d bytes is wrong", i, n)
			}
		}
	}
}

// TestCopierDecides: the fastest copies of both kinds in one round decide, and only after all of them have been timed. The ratio
// of their times decides, whatever the processor takes. One between the two bounds changes nothing.
func TestCopierDecides(t *testing.T) {
	const near, far = false, true
	for _, first := range []bool{near, far} {
		for _, cached := range []time.Duration{100, 1000, 100_000} { // nanoseconds
			c := Copier{past: first}
			for k, x := range []struct {
				past time.Duration // percent of cached
				want bool          // past the caches
			}{
				{51, first}, {64, first}, {49, far}, {51, far}, {64, far}, {66, near}, {64, near}, {51, near}, {300, near}, {10, far},
			} {
				before := c.past
				for i := range uint(2 * timedOfKind) {
					if c.past != before {
						t.Errorf("from %v, round %d: past the caches is %v after %d samples", first, k, c.past, i)
					}
					duration := cached
					if i >= timedOfKind {
						duration = cached * x.past / 100
					}
					if i%timedOfKind != 1 {
						duration *= 7 // an interrupted one
					}
					c.sample(i, duration)
				}
				if c.past != x.want {
					t.Errorf("from %v, round %d: past the caches is %v after %v and %d %%", first, k, c.past, cached, x.past)
				}
			}
		}
	}
}

// TestCopierUse: if the kind of stores is set no copy is timed.
func TestCopierUse(t *testing.T) {
	var c Copier
	for _, s := range []Stores{Cached, NonTemporal} {
		c.Use(s)
		testCopierUse(t, &c, s)
	}
	if c.Use(Fastest); c.past || c.willSample(roundCopies) != hasNonTemporal {
		t.Errorf("after Fastest: %+v", c)
	}
}

func testCopierUse(t *testing.T, c *Copier, s Stores) {
	t.Helper()
	from, to := make([]byte, timedBytes), make([]byte, timedBytes)
	for i := range 2 * roundCopies {
		if c.willSample(roundCopies) {
			t.Errorf("copy %d is to be timed", i)
		}
		if c.Copy(to, from); c.past != (s == NonTemporal && hasNonTemporal) || c.fastest != [2]time.Duration{} {
			t.Errorf("copy %d was timed, or by other stores: %+v", i, c)
		}
	}
}

// TestCopierWillSample: it is known in advance which copies are timed. Of each round 4 of each kind are.
func TestCopierWillSample(t *testing.T) {
	for _, k := range []uint{0, 1, 5, firstTimed, roundCopies} {
		var c Copier
		from, timed := make([]byte, nearBytes+1), 0
		for i := range 3 * roundCopies {
			next := c
			said := next.willSample(k)
			next.fastest = [2]time.Duration{time.Hour, time.Hour} // a sample is less
			for range max(k, 1) {
				next.Copy(from, from)
			}
			if was := next.fastest != [2]time.Duration{time.Hour, time.Hour}; was != said {
				t.Errorf("after %d copies, and %d before the next call: willSample is %v", i, k, said)
			}
			if c.willSample(1) {
				timed++
			}
			c.Copy(from, from)
		}
		want := 3 * 2 * timedOfKind
		if !hasNonTemporal {
			want = 0
		}
		if timed != want {
			t.Errorf("%d copies were timed, want %d", timed, want)
		}
	}
}
