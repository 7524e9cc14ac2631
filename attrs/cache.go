package attrs

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Cache holds the attributes of one owner. Init must be called before use. It must not be copied.
type Cache[O any] struct {
	space *Space[O]
	owner O
	table atomic.Pointer[[]entry[O]] // indexed by slot of the key; replaced under mu, never modified

	mu      sync.Mutex // not held while callbacks run
	lastSeq uint64     // of the newest attribute
}

// attr is an attribute. It holds a reference to its key. If the attribute is detached while its callback runs, the
// goroutine that runs the callback releases the reference.
type attr[O any] struct {
	key      *key[O]
	value    any
	seq      uint64 // order of setting
	deleting bool   // its callback is running; guarded by mu
}

// entry locates an attribute. It repeats the fields that Get needs.
type entry[O any] struct {
	key   *key[O] // nil if the slot is empty
	value any
	attr  *attr[O]
}

// Init makes the cache empty, and sets its owner and the Space of its keys.
func (c *Cache[O]) Init(s *Space[O], owner O) {
	c.space, c.owner = s, owner
	c.table.Store(new([]entry[O]))
}

// lookup returns the attribute with a key, or nil. It needs no lock.
func (c *Cache[O]) lookup(k *key[O]) *attr[O] {
	t := *c.table.Load()
	if k.slot < len(t) && t[k.slot].key == k { // the slot may belong to another key with the same number
		return t[k.slot].attr
	}
	return nil
}

// store sets the slot of a key to an attribute or nil. The caller must hold mu.
func (c *Cache[O]) store(k *key[O], a *attr[O]) {
	old := *c.table.Load()
	t := make([]entry[O], max(len(old), k.slot+1))
	copy(t, old)
	t[k.slot] = entry[O]{}
	if a != nil {
		t[k.slot] = entry[O]{k, a.value, a}
	}
	c.table.Store(&t)
}

// attach stores a new attribute, which becomes the newest. The caller must hold mu.
func (c *Cache[O]) attach(a *attr[O]) {
	c.lastSeq++
	a.seq = c.lastSeq
	c.store(a.key, a)
}

// runDelete runs the delete callback of an attribute. The caller must hold mu, which runDelete releases meanwhile.
// The caller must unlock mu by defer, because a callback may end the goroutine.
func (c *Cache[O]) runDelete(a *attr[O], owner O) error {
	a.deleting = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		a.deleting = false
	}()
	return c.space.call(func() error { return a.key.del(owner, a.value) })
}

// Len returns the number of attributes.
func (c *Cache[O]) Len() (n int) {
	for _, p := range *c.table.Load() {
		if p.attr != nil {
			n++
		}
	}
	return n
}

func (c *Cache[O]) set(k *key[O], value any) error {
	if k.space != c.space || !k.retain() {
		return ErrKeyval
	}
	next := &attr[O]{key: k, value: value}
	c.mu.Lock()
	defer c.mu.Unlock()
	for range maxCalls {
		old := c.lookup(k)
		if old == nil || old.deleting {
			c.attach(next)
			return nil
		}
		err := c.runDelete(old, c.owner)
		now := c.lookup(k)
		if err == nil || now != old {
			k.release() // of old: it is replaced, or was detached while the callback ran
		}
		switch {
		case err != nil:
			k.release() // of next
			return err
		case now == old:
			c.attach(next)
			return nil
		}
		// The callback, or another goroutine meanwhile, has set another value. This call's value is newer, and replaces it
		// like any other.
	}
	k.release() // of next
	return ErrEndless
}

func (c *Cache[O]) delete(k *key[O]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.lookup(k)
	if a == nil {
		return nil
	}
	_, err := c.remove(a, c.owner)
	return err
}

// remove runs the callback of an attribute and detaches it. It reports whether the attribute is detached: it stays if
// the callback fails. The caller must hold mu.
func (c *Cache[O]) remove(a *attr[O], owner O) (off bool, err error) {
	if !a.deleting {
		err = c.runDelete(a, owner)
		if c.lookup(a.key) != a {
			a.key.release()
			return true, err
		}
		if err != nil {
			return false, err
		}
	}
	c.detach(a)
	return true, nil
}

// detach removes an attribute without running its callback. The caller must hold mu.
func (c *Cache[O]) detach(a *attr[O]) {
	c.store(a.key, nil)
	if !a.deleting {
		a.key.release()
	}
}

// Clear deletes all attributes, including those that callbacks set meanwhile, in reverse order of setting. If a
// callback fails, Clear returns its error immediately; that attribute and those set before it stay.
func (c *Cache[O]) Clear() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for left := len(*c.table.Load()) + maxCalls; ; left-- {
		a := c.newest()
		if a == nil {
			return nil
		}
		if left == 0 {
			return ErrEndless
		}
		if _, err := c.remove(a, c.owner); err != nil {
			return err
		}
	}
}

// Drop deletes all attributes like Clear, but removes an attribute even if its callback fails. The callbacks are
// called with the given owner. The result joins their errors.
func (c *Cache[O]) Drop(owner O) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for left := len(*c.table.Load()) + maxCalls; left > 0; left-- {
		a := c.newest()
		if a == nil {
			return errors.Join(errs...)
		}
		off, err := c.remove(a, owner)
		if !off {
			c.detach(a)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	for a := c.newest(); a != nil; a = c.newest() {
		c.detach(a)
	}
	return errors.Join(append(errs, ErrEndless)...)
}

// newest returns the attribute that was set last, or nil.
func (c *Cache[O]) newest() (found *attr[O]) {
	for _, p := range *c.table.Load() {
		if p.attr != nil && (found == nil || p.attr.seq > found.seq) {
			found = p.attr
		}
	}
	return found
}

// Copy calls the copy callbacks of all attributes, in the order of setting, and attaches the results to into. into
// must be the empty cache of a duplicate that no other goroutine knows yet. Attributes that callbacks add are not
// copied, and neither are those that callbacks delete before they are reached. If a callback fails, Copy returns its
// error and deletes the copies again; the delete callbacks are called with the owner of c.
func (c *Cache[O]) Copy(into *Cache[O]) error {
	keys := c.keys()
	defer func() {
		for _, k := range keys {
			k.release()
		}
	}()
	for _, k := range keys {
		if err := c.copyOne(k, into); err != nil {
			return errors.Join(err, into.Drop(c.owner))
		}
	}
	return nil
}

// keys returns the keys of all attributes in the order of setting, each with an additional reference.
func (c *Cache[O]) keys() []*key[O] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var as []*attr[O]
	for _, p := range *c.table.Load() {
		if p.attr != nil {
			as = append(as, p.attr)
		}
	}
	slices.SortFunc(as, func(a, b *attr[O]) int { return cmp.Compare(a.seq, b.seq) })
	keys := make([]*key[O], len(as))
	for i, a := range as {
		a.key.addRef()
		keys[i] = a.key
	}
	return keys
}

func (c *Cache[O]) copyOne(k *key[O], into *Cache[O]) error {
	a := c.lookup(k)
	if a == nil {
		return nil
	}
	var value any
	var keep bool
	err := c.space.call(func() (err error) {
		value, keep, err = k.copy(c.owner, a.value)
		return err
	})
	if err != nil || !keep {
		return err
	}
	k.addRef()
	into.mu.Lock()
	defer into.mu.Unlock()
	into.attach(&attr[O]{key: k, value: value})
	return nil
}
