package mpi

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/attrs"
)

// Limits of an Info, in bytes; those of C have a NUL more. MPI-5.0 §10.
const (
	MaxInfoKey   = attrs.MaxInfoKey
	MaxInfoValue = attrs.MaxInfoValue
)

// Info is a list of keys, each with a value, in the order in which they were first set. Calls take one as hints; nil
// is none. The zero value is empty and ready. Any goroutine may call its methods. It must not be copied but by Dup, and
// need not be freed. MPI-5.0 §10.
type Info attrs.Info

func (i *Info) list() *attrs.Info { return (*attrs.Info)(i) }

// Set stores a value, in the place of an earlier one or at the end. Keys have 1 to MaxInfoKey bytes and values at most
// MaxInfoValue, none of them NUL: ErrInfoKey and ErrInfoValue say so. MPI-5.0 §10.
func (i *Info) Set(key, value string) error {
	const op = "Info.Set"
	if i == nil {
		return newError(op, ErrInfo, errNoInfo)
	}
	err := i.list().Set(key, value)
	switch {
	case errors.Is(err, attrs.ErrInfoKey):
		return newError(op, ErrInfoKey, err)
	case err != nil:
		return newError(op, ErrInfoValue, err)
	}
	return nil
}

var errNoInfo = errors.New("the info is nil")

// Get returns the value of a key, and false if the key is not there. MPI-5.0 §10.
func (i *Info) Get(key string) (value string, ok bool) {
	if i == nil {
		return "", false
	}
	return i.list().Get(key)
}

// Delete removes a key. Those behind it move up. It is ErrInfoNoKey if it is not there. MPI-5.0 §10.
func (i *Info) Delete(key string) error {
	const op = "Info.Delete"
	if i == nil {
		return newError(op, ErrInfo, errNoInfo)
	}
	if err := i.list().Delete(key); err != nil {
		return newError(op, ErrInfoNoKey, err)
	}
	return nil
}

// Len is the number of keys. MPI-5.0 §10.
func (i *Info) Len() int {
	if i == nil {
		return 0
	}
	return i.list().Len()
}

// Nth returns key number n, from 0 to Len()-1. MPI-5.0 §10.
func (i *Info) Nth(n int) (key string, err error) {
	const op = "Info.Nth"
	if i == nil {
		return "", newError(op, ErrInfo, errNoInfo)
	}
	key, ok := i.list().Nth(n)
	if !ok {
		return "", newError(op, ErrArg, fmt.Errorf("key %d of %d", n, i.list().Len()))
	}
	return key, nil
}

// Dup makes another Info with the same keys and values in the same order; of nil an empty one. MPI-5.0 §10.
func (i *Info) Dup() *Info {
	if i == nil {
		return &Info{}
	}
	return (*Info)(i.list().Dup())
}

// All gives the keys with their values in order, as they are when it starts. Not in MPI-5.0.
func (i *Info) All() iter.Seq2[string, string] {
	if i == nil {
		return func(func(string, string) bool) {}
	}
	return i.list().All()
}

// InfoEnv tells how the process was started, as far as that is known, as MPI_INFO_ENV does: command, argv, maxprocs,
// host, arch, wdir, thread_level. What is longer than MaxInfoValue is cut. Each call makes a new Info. MPI-5.0 §11.2.1.
func (p *Process) InfoEnv() *Info {
	i := &Info{}
	set := func(key, value string) {
		value = strings.ToValidUTF8(value[:min(len(value), MaxInfoValue)], "")
		if value != "" {
			_ = i.Set(key, value) // the key is fine, and the system gives no NULs
		}
	}
	set("command", os.Args[0])
	set("argv", strings.Join(os.Args[1:], " "))
	set("maxprocs", strconv.Itoa(p.boot.Size))
	if host, err := os.Hostname(); err == nil {
		set("host", host)
	}
	set("arch", runtime.GOARCH)
	if dir, err := os.Getwd(); err == nil {
		set("wdir", dir)
	}
	set("thread_level", "MPI_THREAD_MULTIPLE")
	return i
}
