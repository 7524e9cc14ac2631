package shm

import "time"

const (
	roundCopies = 256     // copies in a round; some of them are timed
	firstTimed  = 56      // number of the first timed copy in its round; the copies before it may allocate the memory
	timedOfKind = 4       // copies of each kind that are timed one after the other
	timedBytes  = 8 << 10 // of each timed copy, at most
	nearBytes   = 4 << 10 // copies up to this length stay in the caches, and are not timed
)

// A copy past the caches has to be clearly faster for the writer, because the reader then fetches the bytes from memory, and
// because copies into the caches are timed without the prefetch that a writer often has time for ([Writer.Prefetch]). So it is
// chosen if it takes less than farRatio of the time of one into the caches, and given up if it takes more than nearRatio. In
// between the choice stays, so that chance does not change it.
const (
	farRatio  = 0.5
	nearRatio = 0.65
)

// Stores are the kinds of stores by which a [Copier] copies what is longer than some kilobytes.
type Stores uint8

// The kinds of stores.
const (
	Fastest     Stores = iota // those that prove to be faster
	Cached                    // into the caches
	NonTemporal               // past the caches, where the processor has such stores
)

// Copier copies into memory that another core reads, some kilobytes at a time. If that core is near, the lines are best left in
// the cache that both cores share. If it is far away, fetching the lines back from its caches takes longer than writing past
// the caches. A Copier decides by timing a few copies of both kinds now and then; the fastest one of each kind counts. Before
// the first decision all copies stay in the caches. The zero value is ready to use. One goroutine at a time may use it.
type Copier struct {
	copies  uint             // copies of more than nearBytes so far
	past    bool             // copies go past the caches
	stores  Stores           // by Use
	fastest [2]time.Duration // the least times of this round for timedBytes: into the caches, and past them
}

// Use sets the kind of stores.
func (c *Copier) Use(s Stores) { *c = Copier{past: s == NonTemporal && hasNonTemporal, stores: s} }

// Copy copies from to to, which has the same length. A core that sees a store made after Copy also sees the copied bytes.
func (c *Copier) Copy(to, from []byte) {
	if len(from) <= nearBytes {
		copy(to, from)
		return
	}
	i := c.copies%roundCopies - firstTimed // wraps around below firstTimed
	c.copies++
	n := 0
	if i < 2*timedOfKind && c.times() {
		n = min(len(from), timedBytes)
		c.timeCopy(i, to[:n], from[:n])
	}
	copyBy(c.past, to[n:], from[n:])
}

// copyBy copies past the caches or into them.
func copyBy(past bool, to, from []byte) {
	if past {
		CopyNonTemporal(to, from)
	} else {
		copy(to, from)
	}
}

// times reports whether copies are timed: not if the kind of stores is set, or if there is only one.
func (c *Copier) times() bool { return hasNonTemporal && c.stores == Fastest }

// timeCopy makes the copy with the number i among the timed ones of a round. The last one decides.
func (c *Copier) timeCopy(i uint, to, from []byte) {
	begin := time.Now()
	copyBy(i >= timedOfKind, to, from)
	c.sample(i, time.Since(begin)*timedBytes/time.Duration(len(from)))
}

// sample records how long a copy of timedBytes would have taken. i is its number among the timed copies of the round.
func (c *Copier) sample(i uint, duration time.Duration) {
	fastest := &c.fastest[i/timedOfKind]
	if i%timedOfKind == 0 || duration < *fastest {
		*fastest = duration
	}
	if i < 2*timedOfKind-1 {
		return
	}
	switch ratio := float64(max(c.fastest[1], 1)) / float64(max(c.fastest[0], 1)); { // a coarse clock may show 0
	case ratio < farRatio:
		c.past = true
	case ratio > nearRatio:
		c.past = false
	}
}

// willSample reports whether any of the next k copies of more than nearBytes, or the next one, is timed.
func (c *Copier) willSample(k uint) bool {
	next := uint(firstTimed)
	i := c.copies % roundCopies
	if i >= firstTimed+2*timedOfKind {
		next += roundCopies
	}
	return c.times() && i+max(k, 1) > next
}
