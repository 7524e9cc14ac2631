package shm

import "time"

const (
	sampleEvery     = 64                      // copies in a round
	samplesPerRound = 4                       // the first copies of each round are timed
	sampleBytes     = 8 << 10                 // of each timed copy, at most
	farTime         = 12800 * time.Nanosecond // for 64 KiB: three times what it takes within one group of cores
)

// Copier copies into memory that another core reads, some kilobytes at a time. If that core is near, the lines are best left in
// the cache that both cores share. If it is far away, fetching the lines back from its caches takes longer than writing past the
// caches. A Copier decides by timing a few copies now and then; the fastest of them counts. The zero value is ready to use. One
// goroutine at a time may use it.
type Copier struct {
	copies  uint          // copies so far
	fastest time.Duration // the least time of the last samples, scaled to 64 KiB
	far     bool
}

// Copy copies from to to, which has the same length. A core that sees a store made after Copy also sees the copied bytes.
func (c *Copier) Copy(to, from []byte) {
	i := c.copies % sampleEvery
	c.copies++
	if i < samplesPerRound {
		n := min(len(from), sampleBytes)
		begin := time.Now()
		copy(to, from[:n])
		c.sample(i, time.Since(begin)*(64<<10)/time.Duration(max(n, 1)))
		to, from = to[n:], from[n:]
	}
	if c.far {
		CopyNonTemporal(to, from)
	} else {
		copy(to, from)
	}
}

// sample records how long a copy of 64 KiB would have taken. i is the number of the sample in its round.
func (c *Copier) sample(i uint, duration time.Duration) {
	if i == 0 || duration < c.fastest {
		c.fastest = duration
	}
	if i == samplesPerRound-1 {
		c.far = c.fastest > farTime
	}
}

// Far reports whether the other core was found to be far away.
func (c *Copier) Far() bool { return c.far }

// sampledNear reports whether the next copy is timed, or any of the last k or the next k copies.
func (c *Copier) sampledNear(k uint) bool {
	return c.copies%sampleEvery < samplesPerRound || c.copies%sampleEvery+k > sampleEvery
}
