package regcache

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/ibrun/ibrun/fabric"
)

// Registrar registers memory. [fabric.Domain] is one.
type Registrar interface {
	// Register makes b reachable until Deregister.
	Register(b []byte) (fabric.Region, error)
	// Deregister ends a registration.
	Deregister(fabric.Region) error
}

// Errors for which there is a way round: the bytes are copied through memory that is registered already.
var (
	// ErrNoRoom says that the system does not let more memory be pinned, although all that could be undone was.
	ErrNoRoom = errors.New("no more memory can be registered")
	// ErrNotRegistrable says that this memory cannot be registered, however little it is: it may not be written, or
	// is that of another
	// device.
	ErrNotRegistrable = errors.New("memory of this kind cannot be registered")
)

// shared is how many registrations may end at the same address. They are parts of one object, which has a cleanup for each,
// and the runtime looks through all of them.
const shared = 64

// Cache remembers registrations. Its methods may be called by any goroutine, not so those of the registrar.
type Cache struct {
	mu      sync.Mutex
	reg     Registrar
	limit   int
	bytes   int       // registered
	entries []*entry  // ascending by address
	longest int       // of all entries there were
	last    *entry    // found last
	idle    list      // held by nobody, least recently used first
	gone    graveyard // whose memory the collector has freed
	stats   Stats
}

// Stats counts what has happened.
type Stats struct {
	Hits, Misses, Evicted, Freed uint64
	Bytes, Entries               int // registered now
}

// Memory is a registered buffer.
type Memory struct {
	// Remote names the buffer to a peer, Local to this side's device.
	Remote fabric.RemoteKey
	Local  fabric.Region
	e      *entry
}

// entry is a registration.
type entry struct {
	from, to uintptr
	region   fabric.Region
	alive    func() bool // nil: for as long as it is registered
	stop     func()      // takes the cleanup back
	holds    int
	once     bool // not to be found again
	dead     bool // taken out of entries
	prev     *entry
	next     *entry
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

// graveyard takes entries from cleanups, which run at any time.
type graveyard struct {
	mu      sync.Mutex
	entries []*entry
	some    atomic.Bool
}

func (g *graveyard) add(e *entry) {
	g.mu.Lock()
	g.entries = append(g.entries, e)
	g.some.Store(true)
	g.mu.Unlock()
}

func (g *graveyard) take() []*entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	es := g.entries
	g.entries = nil
	g.some.Store(false)
	return es
}

// New makes an empty cache. While more than limit bytes are registered, held ones included, those that nobody holds are
// undone, least recently used first; what is held stays, however much it is.
func New(r Registrar, limit int) *Cache { return &Cache{reg: r, limit: limit} }

// Acquire registers b unless it is registered already. The caller keeps b reachable until Release. The empty buffer needs no
// registration. [ErrNoRoom] and [ErrUnfit] are among the errors; others mean that the device is of no more use.
func (c *Cache) Acquire(b []byte) (Memory, error) { return c.hold(b, false) }

// Register is Hold for good: the memory stays registered until as many Releases as there were calls of Keep and Hold, so it may
// be memory that the runtime does not own.
func (c *Cache) Register(b []byte) (Memory, error) { return c.hold(b, true) }

func (c *Cache) hold(b []byte, keep bool) (Memory, error) {
	if len(b) == 0 {
		return Memory{}, nil
	}
	from, to := bounds(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone.some.Load() {
		if err := c.bury(); err != nil {
			return Memory{}, err
		}
	}
	e := c.find(from, to)
	if e != nil {
		c.stats.Hits++
	} else {
		var err error
		if e, err = c.addEntry(b, keep); err != nil {
			return Memory{}, err
		}
	}
	if e.holds == 0 && !e.once {
		c.idle.remove(e)
	}
	e.holds++
	m := Memory{Remote: e.region.Remote, Local: e.region, e: e}
	m.Remote.Addr += uint64(from - e.from)
	return m, nil
}

// Release ends a Hold or Keep.
func (c *Cache) Release(m Memory) error {
	e := m.e
	if e == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.holds--
	if e.holds > 0 {
		return nil
	}
	if e.once || e.dead || e.alive == nil {
		return c.undo(e)
	}
	c.idle.push(e)
	return c.shrink(c.limit)
}

// find returns the live registration that covers an address range.
func (c *Cache) find(from, to uintptr) *entry {
	if e := c.last; e != nil && e.from <= from && to <= e.to && !e.dead && e.usable() {
		return e
	}
	i, exact := slices.BinarySearchFunc(c.entries, from, func(e *entry, a uintptr) int {
		if e.from < a {
			return -1
		}
		return int(min(e.from-a, 1))
	})
	for exact && i+1 < len(c.entries) && c.entries[i+1].from == from {
		i++
	}
	if !exact {
		i--
	}
	for ; i >= 0 && from-c.entries[i].from < uintptr(c.longest); i-- {
		if e := c.entries[i]; to <= e.to && e.usable() {
			c.last = e
			return e
		}
	}
	return nil
}

// usable tells whether the memory is still that which was registered.
func (e *entry) usable() bool { return e.alive == nil || e.alive() }

// addEntry adds an entry for b, to its capacity if the collector tells when it is gone. The new entry is idle.
func (c *Cache) addEntry(b []byte, keep bool) (*entry, error) {
	c.stats.Misses++
	e := new(entry)
	if !keep {
		whole := b[:cap(b)]
		if len(whole) > c.limit {
			whole = b
		}
		if e.watch(whole, &c.gone) {
			b = whole
		} else {
			e.once = true
		}
	}
	e.from, e.to = bounds(b)
	if err := c.room(e); err != nil {
		e.unwatch()
		return nil, err
	}
	var err error
	if e.region, err = c.pin(b); err != nil {
		e.unwatch()
		return nil, err
	}
	c.bytes += len(b)
	if e.once {
		return e, nil
	}
	c.longest = max(c.longest, len(b))
	i, _ := slices.BinarySearchFunc(c.entries, e.from, func(x *entry, a uintptr) int {
		if x.from <= a {
			return -1
		}
		return 1
	})
	c.entries = slices.Insert(c.entries, i, e)
	c.idle.push(e)
	c.last = e
	return e, nil
}

// pin registers b. It undoes what nobody holds for as long as room is what is lacking.
func (c *Cache) pin(b []byte) (fabric.Region, error) {
	for {
		r, err := c.reg.Register(b)
		switch {
		case err == nil:
			return r, nil
		case among(err, syscall.EFAULT, syscall.EACCES, syscall.EPERM, syscall.EOPNOTSUPP):
			return r, fmt.Errorf("%w: %w", ErrNotRegistrable, err)
		case !among(err, syscall.ENOMEM, syscall.ENOSPC, syscall.EAGAIN):
			return r, err
		case c.idle.head == nil:
			return r, fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
		if err := c.evict(c.idle.head); err != nil {
			return r, err
		}
	}
}

func among(err error, numbers ...syscall.Errno) bool {
	return slices.ContainsFunc(numbers, func(n syscall.Errno) bool { return errors.Is(err, n) })
}

// room undoes registrations until there is room for one more, by bytes and by the number of parts of one object.
func (c *Cache) room(e *entry) error {
	if err := c.shrink(max(0, c.limit-int(e.to-e.from))); err != nil {
		return err
	}
	parts := 0
	var oldest *entry
	for x := c.idle.tail; x != nil; x = x.prev {
		if x.to == e.to {
			parts++
			oldest = x
		}
	}
	if parts >= shared {
		return c.evict(oldest)
	}
	return nil
}

// shrink undoes idle registrations, the oldest first, until no more than so many bytes are registered.
func (c *Cache) shrink(most int) error {
	for c.bytes > most && c.idle.head != nil {
		if err := c.evict(c.idle.head); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) evict(e *entry) error {
	c.stats.Evicted++
	c.idle.remove(e)
	return c.undo(e)
}

// undo ends a registration that nobody holds and that is not in the idle list.
func (c *Cache) undo(e *entry) error {
	c.drop(e)
	e.unwatch()
	c.bytes -= int(e.to - e.from)
	if err := c.reg.Deregister(e.region); err != nil {
		return fmt.Errorf("undo a registration: %w", err)
	}
	return nil
}

// drop takes an entry out of those that are found.
func (c *Cache) drop(e *entry) {
	if c.last == e {
		c.last = nil
	}
	if i := slices.Index(c.entries, e); i >= 0 {
		c.entries = slices.Delete(c.entries, i, i+1)
	}
	e.dead = true
}

// bury undoes registrations of memory that is gone. One that is held is undone when it is released: its holder has
// broken the rule to keep the memory, and must not have it taken away in the middle all the same.
func (c *Cache) bury() error {
	var errs []error
	for _, e := range c.gone.take() {
		if e.dead {
			continue // undone before, by another way
		}
		c.stats.Freed++
		if e.holds > 0 {
			c.drop(e)
			continue
		}
		c.idle.remove(e)
		errs = append(errs, c.undo(e))
	}
	return errors.Join(errs...)
}

// Stats tells what has happened so far.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Bytes, s.Entries = c.bytes, len(c.entries)
	return s
}

// Close undoes all registrations, also those that are held.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for len(c.entries) > 0 {
		e := c.entries[len(c.entries)-1]
		if e.holds == 0 {
			c.idle.remove(e)
		}
		errs = append(errs, c.undo(e))
	}
	return errors.Join(errs...)
}
