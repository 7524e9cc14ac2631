package attrs

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
)

// Limits of an Info, in bytes.
const (
	MaxInfoKey   = 255
	MaxInfoValue = 1023
)

// Errors of an Info. They are wrapped with the key.
var (
	// ErrInfoKey is returned for a key that is empty, longer than MaxInfoKey, or contains a NUL.
	ErrInfoKey = errors.New("invalid info key")
	// ErrInfoValue is returned for a value that is longer than MaxInfoValue or contains a NUL.
	ErrInfoValue = errors.New("invalid info value")
	// ErrInfoNoKey is returned by Delete for a key that does not exist.
	ErrInfoNoKey = errors.New("no such info key")
)

// Info is a list of keys with values, in the order in which the keys were first set. The zero value is empty and
// ready to use. Any goroutine may call its methods. It must not be copied except by Dup.
type Info struct {
	mu    sync.Mutex
	pairs []pair
}

type pair struct{ key, value string }

// find returns the index of a key, or -1. The caller must hold mu.
func (i *Info) find(key string) int {
	return slices.IndexFunc(i.pairs, func(p pair) bool { return p.key == key })
}

// Set stores a value, in the place of an existing one or at the end.
func (i *Info) Set(key, value string) error {
	switch {
	case key == "" || len(key) > MaxInfoKey || strings.Contains(key, "\x00"):
		return fmt.Errorf("%w: %.40q (%d bytes): want 1 to %d bytes without NUL", ErrInfoKey, key, len(key), MaxInfoKey)
	case len(value) > MaxInfoValue || strings.Contains(value, "\x00"):
		return fmt.Errorf("%w: %s=%.40q (%d bytes): want at most %d bytes without NUL",
			ErrInfoValue, key, value, len(value), MaxInfoValue)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := i.find(key); at >= 0 {
		i.pairs[at].value = value
	} else {
		i.pairs = append(i.pairs, pair{key, value})
	}
	return nil
}

// Get returns the value of a key, and false if the key does not exist.
func (i *Info) Get(key string) (string, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := i.find(key); at >= 0 {
		return i.pairs[at].value, true
	}
	return "", false
}

// Delete removes a key. The keys after it move up.
func (i *Info) Delete(key string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	at := i.find(key)
	if at < 0 {
		return fmt.Errorf("%w: %.40q", ErrInfoNoKey, key)
	}
	i.pairs = slices.Delete(i.pairs, at, at+1)
	return nil
}

// Len returns the number of keys.
func (i *Info) Len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.pairs)
}

// Nth returns key number n, from 0, and false if there are not that many keys.
func (i *Info) Nth(n int) (string, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n < 0 || n >= len(i.pairs) {
		return "", false
	}
	return i.pairs[n].key, true
}

// Dup returns a new Info with the same keys and values in the same order.
func (i *Info) Dup() *Info {
	i.mu.Lock()
	defer i.mu.Unlock()
	return &Info{pairs: slices.Clone(i.pairs)}
}

// All returns an iterator over the keys and values in order, as they are when the iteration starts.
func (i *Info) All() iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for _, p := range i.Dup().pairs {
			if !yield(p.key, p.value) {
				return
			}
		}
	}
}
