package core

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

// Info is an ordered list of keys with values, in the order in which the keys were first set. Calls
// take one as hints; nil means no hints. The zero value is empty and ready to use. Any goroutine
// may call its methods. It must not be copied except by Dup, and needs not be freed.
type Info attrs.Info

func (i *Info) list() *attrs.Info { return (*attrs.Info)(i) }

// Set stores a value, in the place of an existing one or at the end.
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

// Get returns the value of a key, and false if the key does not exist.
func (i *Info) Get(key string) (value string, ok bool) {
	if i == nil {
		return "", false
	}
	return i.list().Get(key)
}

// Delete removes a key; the keys after it move up.
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

// Len returns the number of keys.
func (i *Info) Len() int {
	if i == nil {
		return 0
	}
	return i.list().Len()
}

// Nth returns key number n, from 0 to Len()-1.
func (i *Info) Nth(n int) (key string, err error) {
	const op = "Info.Nth"
	if i == nil {
		return "", newError(op, ErrInfo, errNoInfo)
	}
	key, ok := i.list().Nth(n)
	if !ok {
		return "", newError(op, ErrArg, fmt.Errorf("key number %d is out of range: the info has %d keys", n, i.list().Len()))
	}
	return key, nil
}

// Dup returns a new Info with the same keys and values in the same order.
func (i *Info) Dup() *Info {
	if i == nil {
		return &Info{}
	}
	return (*Info)(i.list().Dup())
}

// All returns an iterator over the keys and values in order, as they are when the iteration starts.
func (i *Info) All() iter.Seq2[string, string] {
	if i == nil {
		return func(func(string, string) bool) {}
	}
	return i.list().All()
}

// InfoEnv describes how the process was started, like MPI_INFO_ENV: command, argv, maxprocs, host,
// arch, wdir, thread_level.
func (p *Process) InfoEnv() *Info {
	i := &Info{}
	set := func(key, value string) {
		value = strings.ToValidUTF8(value[:min(len(value), attrs.MaxInfoValue)], "")
		if value != "" {
			_ = i.Set(key, value) // cannot fail: the key is valid, and the value is short and has no NUL
		}
	}
	set("command", os.Args[0])
	set("argv", strings.Join(os.Args[1:], " "))
	if !p.IsNone() {
		set("maxprocs", strconv.Itoa(p.boot.Size))
	}
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
