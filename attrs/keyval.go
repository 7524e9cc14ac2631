package attrs

import (
	"errors"
	"sync"
	"sync/atomic"
)

// FirstNumber is the lowest number of a key. Those below are for keys and handles that a standard defines; 0 is none.
const FirstNumber = 1024

// ErrKeyval says that a key is not valid: it is the zero Keyval, has been freed, or belongs to another Space.
var ErrKeyval = errors.New("the key is none, has been freed, or is of another process")

// Space is the set of keys for owners of type O. The zero value is ready; it must not be copied.
type Space[O any] struct {
	running atomic.Int64 // callbacks under way

	mu        sync.Mutex
	nextSlot  int   // numbers ever in use
	freeSlots []int // those that are free again
}

// key is what Keyvals of any attribute type name. Values are pointers to attributes, as any.
type key[O any] struct {
	space *Space[O]
	slot  int // the number, from 0
	copy  func(owner O, value any) (any, bool, error)
	del   func(owner O, value any) error

	refs  atomic.Int64 // the user's, one per attribute, one per walk that will come by; changed under space.mu
	freed bool         // under space.mu: the user's is gone
}

// Keyval is a key for attributes of type T on owners of type O. It is a value that can be compared and copied; the zero
// Keyval is not a key.
type Keyval[O, T any] struct{ k *key[O] }

// CopyFunc is asked for the attribute of a duplicate. If keep is false the duplicate has none. It fails the duplication
// by an error.
type CopyFunc[O, T any] func(owner O, value T) (copied T, keep bool, err error)

// DeleteFunc is told that an attribute goes. By an error it refuses, and fails the call that asked for it.
type DeleteFunc[O, T any] func(owner O, value T) error

// NullCopy is a CopyFunc: the duplicate has no such attribute.
func NullCopy[O, T any](O, T) (none T, keep bool, err error) { return none, false, nil }

// DupCopy is a CopyFunc: the duplicate has the same value.
func DupCopy[O, T any](_ O, value T) (T, bool, error) { return value, true, nil }

// NullDelete is a DeleteFunc that does nothing.
func NullDelete[O, T any](O, T) error { return nil }

// NewKeyval makes a key. A nil copy stands for NullCopy, a nil del for NullDelete.
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

// Number is the key as an integer, from FirstNumber and unique among the keys of its Space; 0 for the zero Keyval.
func (k Keyval[O, T]) Number() int {
	if k.k == nil {
		return 0
	}
	return k.k.slot + FirstNumber
}

// Set attaches v to the owner of c. A value that is there goes first: if its callback fails, Set fails with that error
// and the old value stays.
func (k Keyval[O, T]) Set(c *Cache[O], v T) error {
	if k.k == nil {
		return ErrKeyval
	}
	return c.set(k.k, &v)
}

// Get returns the attribute, and false if there is none.
func (k Keyval[O, T]) Get(c *Cache[O]) (v T, ok bool, err error) {
	if k.k != nil {
		// As Cache.at, with nothing left to call.
		t := *c.table.Load()
		if i := k.k.slot; i < len(t) && t[i].key == k.k {
			return *t[i].value.(*T), true, nil
		}
	}
	return v, false, k.k.valid(c)
}

// Delete removes the attribute. If its callback fails, Delete fails with that error and the attribute stays. It is no
// error if there is none.
func (k Keyval[O, T]) Delete(c *Cache[O]) error {
	if err := k.k.valid(c); err != nil {
		return err
	}
	return c.delete(k.k)
}

// Free gives the key up and makes *k the zero Keyval. Attributes with it stay; see the package comment.
func (k *Keyval[O, T]) Free() error {
	if k.k == nil || !k.k.free() {
		return ErrKeyval
	}
	k.k = nil
	return nil
}

// valid refuses keys that are none here. A key lives as long as something refers to it.
func (k *key[O]) valid(c *Cache[O]) error {
	if k == nil || k.space != c.space || k.refs.Load() == 0 {
		return ErrKeyval
	}
	return nil
}

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

// retain adds a reference for a new attribute, unless the key has been freed.
func (k *key[O]) retain() bool {
	k.space.mu.Lock()
	defer k.space.mu.Unlock()
	if !k.freed {
		k.refs.Add(1)
	}
	return !k.freed
}

// addRef adds a reference to a key that has one already.
func (k *key[O]) addRef() {
	k.space.mu.Lock()
	k.refs.Add(1)
	k.space.mu.Unlock()
}

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

func (k *key[O]) unref() {
	if k.refs.Add(-1) == 0 {
		k.space.freeSlots = append(k.space.freeSlots, k.slot)
	}
}
