package attrs

import (
	"errors"
	"sync"
	"sync/atomic"
)

// FirstNumber is the lowest number of a key. Lower numbers are reserved for keys and handles that a standard defines;
// 0 is not a key.
const FirstNumber = 1024

// ErrKeyval is returned for an invalid key: it is the zero Keyval, has been freed, or belongs to another Space.
var ErrKeyval = errors.New("the key is the zero Keyval, has been freed, or belongs to another process")

// Space is the set of keys for owners of type O. The zero value is ready to use; it must not be copied.
type Space[O any] struct {
	running atomic.Int64 // number of running callbacks

	mu        sync.Mutex
	nextSlot  int   // lowest slot that was never in use
	freeSlots []int // slots of keys that are gone
}

// key is the key to which Keyvals of any attribute type refer. Values are passed as pointers to attributes in an any.
type key[O any] struct {
	space *Space[O]
	slot  int // the number, from 0
	copy  func(owner O, value any) (any, bool, error)
	del   func(owner O, value any) error

	refs  atomic.Int64 // one of the user, one per attribute, one per Copy in progress; changed under space.mu
	freed bool         // the user has called Free; guarded by space.mu
}

// Keyval is a key for attributes of type T on owners of type O. It is a value that can be compared and copied; the zero
// Keyval is not a key.
type Keyval[O, T any] struct{ k *key[O] }

// CopyFunc returns the attribute of a duplicate. If keep is false the duplicate has none. An error makes the
// duplication fail.
type CopyFunc[O, T any] func(owner O, value T) (copied T, keep bool, err error)

// DeleteFunc is called when an attribute is deleted. An error keeps the attribute and makes the call that deletes it
// fail.
type DeleteFunc[O, T any] func(owner O, value T) error

// NullCopy is a CopyFunc that gives the duplicate no attribute.
func NullCopy[O, T any](O, T) (none T, keep bool, err error) { return none, false, nil }

// DupCopy is a CopyFunc that gives the duplicate the same value.
func DupCopy[O, T any](_ O, value T) (T, bool, error) { return value, true, nil }

// NullDelete is a DeleteFunc that does nothing.
func NullDelete[O, T any](O, T) error { return nil }

// NewKeyval creates a key. A nil copy means NullCopy, a nil del means NullDelete.
func NewKeyval[O, T any](s *Space[O], copy CopyFunc[O, T], del DeleteFunc[O, T]) Keyval[O, T] {
	if copy == nil {
		copy = NullCopy[O, T]
	}
	if del == nil {
		del = NullDelete[O, T]
	}
	k := &key[O]{
		space: s,
		slot:  s.allocSlot(),
		copy: func(owner O, value any) (any, bool, error) {
			v, keep, err := copy(owner, *value.(*T))
			return &v, keep, err
		},
		del: func(owner O, value any) error { return del(owner, *value.(*T)) },
	}
	k.refs.Store(1)
	return Keyval[O, T]{k}
}

// Number returns an integer that is at least FirstNumber and unique among the keys of the Space; 0 for the zero
// Keyval.
func (k Keyval[O, T]) Number() int {
	if k.k == nil {
		return 0
	}
	return k.k.slot + FirstNumber
}

// Set attaches v to the owner of c. An existing value is deleted first: if its callback fails, Set returns that error
// and the old value stays.
func (k Keyval[O, T]) Set(c *Cache[O], v T) error {
	if k.k == nil {
		return ErrKeyval
	}
	return c.set(k.k, &v)
}

// Get returns the attribute, and false if there is no such attribute.
func (k Keyval[O, T]) Get(c *Cache[O]) (v T, ok bool, err error) {
	if k.k != nil {
		// This is Cache.lookup, inlined for speed.
		t := *c.table.Load()
		if i := k.k.slot; i < len(t) && t[i].key == k.k {
			return *t[i].value.(*T), true, nil
		}
	}
	return v, false, k.k.valid(c)
}

// Delete removes the attribute. If its callback fails, Delete returns that error and the attribute stays. Without an
// attribute it does nothing.
func (k Keyval[O, T]) Delete(c *Cache[O]) error {
	if err := k.k.valid(c); err != nil {
		return err
	}
	return c.delete(k.k)
}

// Free releases the key and sets *k to the zero Keyval. Attributes with the key stay; see the package comment.
func (k *Keyval[O, T]) Free() error {
	if k.k == nil || !k.k.free() {
		return ErrKeyval
	}
	k.k = nil
	return nil
}

// valid returns an error if the key cannot be used with c. A key exists while there is a reference to it.
func (k *key[O]) valid(c *Cache[O]) error {
	if k == nil || k.space != c.space || k.refs.Load() == 0 {
		return ErrKeyval
	}
	return nil
}

// allocSlot returns a slot for a new key.
func (s *Space[O]) allocSlot() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.freeSlots); n > 0 {
		slot := s.freeSlots[n-1]
		s.freeSlots = s.freeSlots[:n-1]
		return slot
	}
	s.nextSlot++
	return s.nextSlot - 1
}

// retain adds a reference for a new attribute. It reports false if the key has been freed.
func (k *key[O]) retain() bool {
	k.space.mu.Lock()
	defer k.space.mu.Unlock()
	if !k.freed {
		k.refs.Add(1)
	}
	return !k.freed
}

// addRef adds a reference to a key that has at least one.
func (k *key[O]) addRef() {
	k.space.mu.Lock()
	k.refs.Add(1)
	k.space.mu.Unlock()
}

// free releases the user's reference. It reports false if that was released before.
func (k *key[O]) free() bool {
	k.space.mu.Lock()
	defer k.space.mu.Unlock()
	if k.freed {
		return false
	}
	k.freed = true
	k.unref()
	return true
}

// release drops a reference.
func (k *key[O]) release() {
	k.space.mu.Lock()
	k.unref()
	k.space.mu.Unlock()
}

// unref releases a reference. The last one makes the slot available to another key. The caller must hold space.mu.
func (k *key[O]) unref() {
	if k.refs.Add(-1) == 0 {
		k.space.freeSlots = append(k.space.freeSlots, k.slot)
	}
}
