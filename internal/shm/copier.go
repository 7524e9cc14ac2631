package shm

import "time"

const (
	sampleEvery     = 64 // copies in a round
	samplesPerRound = 4  // the last copies of each round are timed: the first ones may allocate the memory
	firstSample     = sampleEvery - samplesPerRound
	sampleBytes     = 8 << 10 // of each timed copy, at most
	nearBytes       = 4 << 10 // copies up to this length stay in the caches, and are not timed
)

// A copy of 64 KiB that takes less than nearTime shows that the other core is near. One that takes more than farTime shows that
// it is far. Times between the two were measured at both distances. They do not change a decision; if there is none, they decide
// for near.
//
// On one processor such a copy took 1 to 1.9 µs to a near core, and 3 to 11 µs to a far one. On another it mostly took 1.6 to
// 4 µs, and 6 to 30 µs.
const (
	nearTime = 3200 * time.Nanosecond
	farTime  = 4800 * time.Nanosecond
)

// Copier copies into memory that another core reads, some kilobytes at a time. If that core is near, the lines are best left in
// the cache that both cores share. If it is far away, fetching the lines back from its caches takes longer than writing past the
// caches. A Copier decides by timing a few copies now and then; the fastest of them counts. Before the first decision all copies
// stay in the caches. The zero value is ready to use. One goroutine at a time may use it.
type Copier struct {
	copies   uint          // copies of more than nearBytes so far
	fastest  time.Duration // the least time of the last samples, scaled to 64 KiB
	distance distance
	assumed  bool // no copy is timed
}

// distance says where the other core is.
type distance uint8

const (
	unknown distance = iota
	near             // it shares a cache with this core
	far
)

// Copy copies from to to, which has the same length. A core that sees a store made after Copy also sees the copied bytes.
func (c *Copier) Copy(to, from []byte) {
	if len(from) <= nearBytes {
		copy(to, from)
		return
	}
	i := c.copies % sampleEvery
	c.copies++
	switch {
	case i >= firstSample && !c.assumed:
		n := min(len(from), sampleBytes)
		begin := time.Now()
		copy(to, from[:n])
		c.sample(i-firstSample, time.Since(begin)*(64<<10)/time.Duration(n))
		copy(to[n:], from[n:])
	case c.distance == far:
		CopyNonTemporal(to, from)
	default:
		copy(to, from)
	}
}

// sample records how long a copy of 64 KiB would have taken. i is the number of the sample in its round.
func (c *Copier) sample(i uint, duration time.Duration) {
	if i == 0 || duration < c.fastest {
		c.fastest = duration
	}
	if i < samplesPerRound-1 {
		return
	}
	switch {
	case c.fastest > farTime:
		c.distance = far
	case c.fastest < nearTime || c.distance == unknown:
		c.distance = near
	}
}

// AssumeNear makes the Copier treat the other core as near. It then times no copies.
func (c *Copier) AssumeNear() { c.distance, c.assumed = near, true }

// willSample reports whether any of the next k copies of more than nearBytes, or the next one, is timed.
func (c *Copier) willSample(k uint) bool {
	return !c.assumed && c.copies%sampleEvery+max(k, 1) > firstSample
}
