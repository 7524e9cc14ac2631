package regcache

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"syscall"

	"github.com/ibrun/ibrun/fabric"
)

// Registrar registers memory with a device. A [fabric.Domain] is a Registrar.
type Registrar interface {
	// Register makes b accessible for the device until Deregister.
	Register(b []byte) (fabric.Region, error)
	// Deregister ends a registration.
	Deregister(fabric.Region) error
}

// Errors after which the bytes can still be copied through memory that is registered already.
var (
	// ErrNoRoom reports that the system does not allow more registered memory, although all registrations that were not in use
	// have been evicted.
	ErrNoRoom = errors.New("no more memory can be registered")
	// ErrNotRegistrable reports that the device refuses this memory: it is read-only, or belongs to another device, or for any
	// other reason that the system gives.
	ErrNotRegistrable = errors.New("the device refuses to register this memory")
)

// DefaultLimit is the bound of a cache, in bytes, unless the program chooses another one. The
// comment of mpi.Config.PinnedBytes names its value.
const DefaultLimit = 1 << 30

// maxPerObject is the maximum number of registrations of parts of one object that are not in use. The object has a cleanup for
// each of them, and the runtime scans all cleanups of an object.
const maxPerObject = 64

// Cache caches registrations. Any goroutine may call its methods. It calls those of the registrar one at a time.
type Cache struct {
	mu          sync.Mutex
	reg         Registrar
	limit       int
	bytes       int      // registered
	entries     []*entry // ascending by address
	longest     int      // length in bytes of the longest entry that there ever was
	last        *entry   // the entry found last
	idle        list     // entries that are not in use, least recently used first
	invalidated invalidatedList
	stats       Stats
	refused     error // the first of the device to deregister memory
}

// Stats are the counters of a cache.
type Stats struct {
	Hits, Misses, Evicted, Freed uint64
	Bytes, Entries               int // of the current registrations
}

// Memory is a registered buffer.
type Memory struct {
	// Remote is the buffer's key for a peer, Local the one for this side's device.
	Remote fabric.RemoteKey
	Local  fabric.Region
	e      *entry
}

// entry is a registration.
type entry struct {
	extent
	cache   *Cache
	region  fabric.Region
	alive   func() bool // reports whether the memory still exists; nil: it does as long as it is registered
	stop    func()      // cancels the cleanup
	refs    int
	once    bool // for one use only; not in entries
	removed bool // from entries
	covered bool // another registration covers this one, so it is not kept when it becomes idle
	prev    *entry
	next    *entry
}

// list is a list of entries, oldest first.
type list struct{ head, tail *entry }

func (l *list) push(e *entry) {
	e.prev, e.next = l.tail, nil
	if l.tail != nil {
		l.tail.next = e
	} else {
		l.head = e
	}
	l.tail = e
}

func (l *list) remove(e *entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		l.head = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		l.tail = e.prev
	}
	e.prev, e.next = nil, nil
}

// New returns an empty cache. While more than limit bytes are registered, including those in use, registrations that are not in
// use are evicted, least recently used first. Those in use stay, however many bytes they have.
func New(r Registrar, limit int) *Cache { return &Cache{reg: r, limit: limit} }

// Acquire registers b unless it is registered already. The caller keeps b reachable until Release. The empty buffer needs no
// registration. Errors other than [ErrNoRoom] and [ErrNotRegistrable] mean that the device cannot be used any more.
func (c *Cache) Acquire(b []byte) (Memory, error) { return c.acquire(b, false) }

// Register is Acquire for memory that the caller keeps alive: it stays registered until there have been as many calls of Release
// as of Register and Acquire. The runtime need not own the memory.
func (c *Cache) Register(b []byte) (Memory, error) { return c.acquire(b, true) }

func (c *Cache) acquire(b []byte, foreign bool) (Memory, error) {
	if len(b) == 0 {
		return Memory{}, nil
	}
	from, to := bounds(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.invalidated.nonEmpty.Load() {
		c.dropInvalidated()
	}
	e := c.find(from, to)
	if e != nil {
		c.stats.Hits++
	} else {
		var err error
		if e, err = c.addEntry(b, foreign); err != nil {
			return Memory{}, err
		}
	}
	if e.refs == 0 && !e.once {
		c.idle.remove(e)
	}
	e.refs++
	m := Memory{Remote: e.region.Remote, Local: e.region, e: e}
	m.Remote.Addr += uint64(from - e.from)
	return m, nil
}

// Release ends an Acquire or Register. After an error the memory stays registered; Close returns the first such error.
func (c *Cache) Release(m Memory) error {
	e := m.e
	if e == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.refs--
	if e.refs > 0 {
		return nil
	}
	if e.once || e.removed || e.covered || e.alive == nil {
		return c.deregister(e)
	}
	c.idle.push(e)
	c.shrink(c.limit)
	return nil
}

// Release ends the Acquire or Register that has returned m, whichever cache that was.
func (m Memory) Release() error {
	if m.e == nil {
		return nil
	}
	return m.e.cache.Release(m)
}

// find returns the usable registration that covers an address range; nil if there is none.
func (c *Cache) find(from, to uintptr) *entry {
	if e := c.last; e != nil && e.from <= from && to <= e.to && !e.removed && e.usable() {
		return e
	}
	for i := c.lastFrom(from); i >= 0 && from-c.entries[i].from < uintptr(c.longest); i-- {
		if e := c.entries[i]; to <= e.to && e.usable() {
			c.last = e
			return e
		}
	}
	return nil
}

// lastFrom returns the index of the last entry that begins at an address or before, -1 if there is none.
func (c *Cache) lastFrom(from uintptr) int {
	return sort.Search(len(c.entries), func(i int) bool { return c.entries[i].from > from }) - 1
}

// usable reports whether the memory is still the one that was registered.
func (e *entry) usable() bool { return e.alive == nil || e.alive() }

// addEntry registers b, and some of what is behind it if the runtime owns the memory, and adds an entry for it. The entry is
// idle.
func (c *Cache) addEntry(b []byte, foreign bool) (*entry, error) {
	c.stats.Misses++
	e, used := &entry{cache: c}, len(b)
	e.from, e.to = bounds(b)
	if !foreign {
		if e.addCleanup(b, &c.invalidated) {
			e.extent = c.extentFor(b)
			b = b[:e.to-e.from]
		} else {
			e.once = true
		}
	}
	c.makeRoom(e)
	var err error
	e.region, err = c.registerEvicting(b)
	if err != nil && len(b) > used { // the device or the system may have room for what is used alone
		e.to, b = e.from+uintptr(used), b[:used]
		e.region, err = c.registerEvicting(b)
	}
	if err != nil {
		e.stopCleanup()
		return nil, err
	}
	c.bytes += len(b)
	if e.once {
		return e, nil
	}
	c.longest = max(c.longest, len(b))
	c.entries = slices.Insert(c.entries, c.lastFrom(e.from)+1, e)
	c.idle.push(e)
	c.last = e
	if foreign {
		return e, nil
	}
	c.evictCovered(e)
	return e, nil
}

// registerEvicting registers b with the device. While the system has no room for it, it evicts idle registrations.
func (c *Cache) registerEvicting(b []byte) (fabric.Region, error) {
	for {
		r, err := c.reg.Register(b)
		var number syscall.Errno
		switch {
		case err == nil:
			return r, nil
		case !errors.As(err, &number):
			return r, err
		case !isAnyOf(err, syscall.ENOMEM, syscall.ENOSPC, syscall.EAGAIN):
			return r, fmt.Errorf("%w: %w", ErrNotRegistrable, err)
		case c.idle.head == nil:
			return r, fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
		c.evict(c.idle.head)
	}
}

func isAnyOf(err error, numbers ...syscall.Errno) bool {
	return slices.ContainsFunc(numbers, func(n syscall.Errno) bool { return errors.Is(err, n) })
}

// makeRoom evicts registrations until there is room for e, by bytes and by the number of registrations of one object.
func (c *Cache) makeRoom(e *entry) {
	c.shrink(max(0, c.limit-int(e.to-e.from)))
	parts := 0
	var oldest *entry
	for x := c.idle.tail; x != nil; x = x.prev {
		if x.end == e.end {
			parts++
			oldest = x
		}
	}
	if parts >= maxPerObject {
		c.evict(oldest)
	}
}

// shrink evicts idle registrations, the oldest first, until at most so many bytes are registered.
func (c *Cache) shrink(most int) {
	for c.bytes > most && c.idle.head != nil {
		c.evict(c.idle.head)
	}
}

// evict deregisters an idle entry. If the device refuses that, Close returns the first such error.
func (c *Cache) evict(e *entry) {
	c.stats.Evicted++
	c.idle.remove(e)
	_ = c.deregister(e)
}

// deregister ends a registration that is not in use and not in the idle list. If the device refuses, the memory stays registered,
// which harms no transfer.
func (c *Cache) deregister(e *entry) error {
	c.remove(e)
	e.stopCleanup()
	c.bytes -= int(e.to - e.from)
	if err := c.reg.Deregister(e.region); err != nil {
		err = fmt.Errorf("deregister memory: %w", err)
		c.refused = cmp.Or(c.refused, err)
		return err
	}
	return nil
}

// remove removes an entry from entries, so that it is not found any more.
func (c *Cache) remove(e *entry) {
	if c.last == e {
		c.last = nil
	}
	if i := slices.Index(c.entries, e); i >= 0 {
		c.entries = slices.Delete(c.entries, i, i+1)
	}
	e.removed = true
}

// dropInvalidated deregisters memory that the collector has freed. A registration in use is deregistered when it is released: its
// user has broken the rule to keep the memory reachable, but still its transfer must not be disturbed.
func (c *Cache) dropInvalidated() {
	for _, e := range c.invalidated.take() {
		if e.removed {
			continue // has been evicted
		}
		c.stats.Freed++
		if e.refs > 0 {
			c.remove(e)
			continue
		}
		c.idle.remove(e)
		_ = c.deregister(e) // Close returns the first such error
	}
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Bytes, s.Entries = c.bytes, len(c.entries)
	return s
}

// Close deregisters all memory in the cache, including that in use. Memory that is registered for one use only is not in it, and
// stays registered until Release. Close returns the first error with which memory was not deregistered, now or before.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.entries) > 0 {
		e := c.entries[len(c.entries)-1]
		if e.refs == 0 {
			c.idle.remove(e)
		}
		_ = c.deregister(e)
	}
	return c.refused
}
