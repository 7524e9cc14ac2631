//go:build !linux

package uverbs

import (
	"errors"
)

// Open fails with an error that wraps [errors.ErrUnsupported]: only Linux has this interface.
func Open(d Device) (*Context, error) {
	return nil, &Error{Call: "open", Device: d.Name, Err: errors.ErrUnsupported, Hint: "verbs need Linux"}
}

// Find fails as Open does.
func Find(name string) (Device, error) {
	return Device{}, &Error{Call: "find", Device: name, Err: errors.ErrUnsupported, Hint: "verbs need Linux"}
}

func memlock(start, length uint64) *MemlockError { return nil }

func postFunc(k Kernel) func(fd int, command, resp []byte) error { return k.Post }
