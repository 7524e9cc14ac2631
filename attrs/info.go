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

// Errors of an Info. They come wrapped with the key.
var (
	// ErrInfoKey says that a key is empty, longer than MaxInfoKey, or has a NUL in it.
	ErrInfoKey = errors.New("invalid info key")
	// ErrInfoValue says that a value is longer than MaxInfoValue, or has a NUL in it.
	ErrInfoValue = errors.New("invalid info value")
	// ErrInfoNoKey says that a key to be deleted is not there.
	ErrInfoNoKey = errors.New("no such info key")
)

// Info is a list of keys, each with a value, in the order in which they were first set. The zero value is empty and
// ready. Any goroutine may call its methods; it must not be copied but by Dup.
type Info struct {
	mu    sync.Mutex
	pairs []pair
}

type pair struct{ key, value string }

// find returns the index of a key, or -1. The caller holds the lock.
func (i *Info) find(key string) int {
	return slices.IndexFunc(i.pairs, func(p pair) bool { return p.key == key })
}

// Set stores a value, in the place of an earlier one or at the end.
func (i *Info) Set(key, value string) error {
	switch {
	case key == "" || len(key) > MaxInfoKey || strings.Contains(key, "\x00"):
		return fmt.Errorf("%w: %.40q of %d bytes: it has 1 to %d, none of them NUL", ErrInfoKey, key, len(key), MaxInfoKey)
	case len(value) > MaxInfoValue || strings.Contains(value, "\x00"):
		return fmt.Errorf("%w: %s=%.40q of %d bytes: it has at most %d, none of them NUL",
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

// Get returns the value of a key, and false if the key is not there.
func (i *Info) Get(key string) (string, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := i.find(key); at >= 0 {
		return i.pairs[at].value, true
	}
	return "", false
}

// Delete removes a key. Those behind it move up.
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

// Len is the number of keys.
func (i *Info) Len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.pairs)
}

// Nth returns key number n, from 0, and false if there are not as many.
func (i *Info) Nth(n int) (string, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n < 0 || n >= len(i.pairs) {
		return "", false
	}
	return i.pairs[n].key, true
}

// Dup makes another Info with the same keys and values in the same order.
func (i *Info) Dup() *Info {
	i.mu.Lock()
	defer i.mu.Unlock()
	return &Info{pairs: slices.Clone(i.pairs)}
}

// All gives the keys with their values in order, as they are when it starts.
func (i *Info) All() iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for _, p := range i.Dup().pairs {
			if !yield(p.key, p.value) {
				return
			}
		}
	}
}
