package regcache

const (
	pageBytes = 4 << 10
	// maxSpare is how many bytes beyond those that are used may be registered at first, in bytes.
	maxSpare = 2 << 20
	// maxGrowths keeps maxSpare<<maxGrowths, 1 PiB, in an address.
	maxGrowths = 29
)

// extent is how much of an allocation a registration covers, and why.
type extent struct {
	from, to uintptr
	end      uintptr // of the allocation
	// start is where the use of the allocation began that this registration continues. It is from, or that of the registration
	// that ends where this one begins, or within it.
	start   uintptr
	growths uint // registrations of that use before this one
}

// extentFor returns what to register for the use of b. Only what is used is pinned: a short message from a large buffer must not
// pin the buffer. But if a buffer is used with growing lengths, or part by part, not every message should need a registration.
// So as many bytes again are registered behind b as were used, at most maxSpare at first. Whenever that was not enough, the bound
// is doubled.
func (c *Cache) extentFor(b []byte) extent {
	from, to := bounds(b)
	x := extent{from: from, end: from + uintptr(cap(b)), start: from}
	if n := c.neighbour(&x); n != nil {
		x.start, x.growths = n.start, min(n.growths+1, maxGrowths)
	}
	x.to = to + min(to-x.start, maxSpare<<x.growths)
	x.to = min((x.to+pageBytes-1)&^(pageBytes-1), x.end) // whole pages are pinned
	if x.to-x.from > uintptr(c.limit) {
		x.to = to
	}
	return x
}

// neighbour returns a registration of the same allocation in which x begins, or at whose end; nil if there is none.
func (c *Cache) neighbour(x *extent) *entry {
	for i := c.lastFrom(x.from); i >= 0 && x.from-c.entries[i].from <= uintptr(c.longest); i-- {
		if e := c.entries[i]; e.end == x.end && x.from <= e.to && e.alive != nil && e.alive() {
			return e
		}
	}
	return nil
}

// evictCovered evicts the registrations that a new one covers: now, or when they become idle. Otherwise a buffer that is used
// with growing lengths would be pinned several times.
func (c *Cache) evictCovered(by *entry) {
	for i := c.lastFrom(by.to); i >= 0 && c.entries[i].from >= by.from; i-- {
		e := c.entries[i]
		if e == by || e.to > by.to || e.alive == nil {
			continue
		}
		if e.covered = true; e.refs > 0 {
			continue
		}
		c.evict(e)
	}
}
