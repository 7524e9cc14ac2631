package shm

import "time"

const (
	sampleEvery = 64                      // of so many copies
	samples     = 4                       // so many are timed
	sampleBytes = 8 << 10                 // of so much
	farPace     = 12800 * time.Nanosecond // for 64 KiB: three times what it takes within one group of cores
)

// Copier copies into memory that another core reads, some kilobytes at a time. Where that core is near, the lines are best left
// in the cache that both share. Where it is far away, fetching them back from its caches takes longer than writing past them. To
// find that out a Copier takes the time of a few copies now and then; the fastest counts. The zero value is ready. One goroutine
// at a time.
type Copier struct {
	n    uint          // copies so far
	pace time.Duration // the least time of the last samples, for 64 KiB
	far  bool
}

// Copy copies from to to, which is as long. Whoever sees a store made after it sees the copy.
func (c *Copier) Copy(to, from []byte) {
	i := c.n % sampleEvery
	c.n++
	if i < samples {
		n := min(len(from), sampleBytes)
		begin := time.Now()
		copy(to, from[:n])
		c.sample(i, time.Since(begin)*(64<<10)/time.Duration(max(n, 1)))
		to, from = to[n:], from[n:]
	}
	if c.far {
		Stream(to, from)
	} else {
		copy(to, from)
	}
}

// sample takes in how long 64 KiB would have taken. i counts the samples of this time.
func (c *Copier) sample(i uint, pace time.Duration) {
	if i == 0 || pace < c.pace {
		c.pace = pace
	}
	if i == samples-1 {
		c.far = c.pace > farPace
	}
}

// Far tells whether the other core was found to be far away.
func (c *Copier) Far() bool { return c.far }

// timed tells whether the next copy, or one of the last or next k, is one whose time is taken.
func (c *Copier) timed(k uint) bool {
	return c.n%sampleEvery < samples || c.n%sampleEvery+k > sampleEvery
}
