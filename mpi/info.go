package mpi

import (
	"iter"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Maximum lengths in an Info in bytes. C's constants also count the final NUL. MPI-5.0 §10.
const (
	MaxInfoKey   = attrs.MaxInfoKey
	MaxInfoValue = attrs.MaxInfoValue
)

// Info is an ordered list of keys with values, in the order in which the keys were first set. Calls take one as
// hints; nil means no hints. The zero value is empty and ready to use. Any goroutine may call its methods. It must
// not be copied except by Dup, and needs not be freed. MPI-5.0 §10.
type Info attrs.Info

func (i *Info) core() *core.Info { return (*core.Info)(i) }

// info returns the results of a call of core.
func info(i *core.Info, err error) (*Info, error) { return (*Info)(i), public(err) }

// Set stores a value, in the place of an existing one or at the end. Keys have 1 to MaxInfoKey bytes and values at
// most MaxInfoValue bytes, without NUL; otherwise Set fails with ErrInfoKey or ErrInfoValue. MPI-5.0 §10.
func (i *Info) Set(key, value string) error { return public(i.core().Set(key, value)) }

// Get returns the value of a key, and false if the key does not exist. MPI-5.0 §10.
func (i *Info) Get(key string) (value string, ok bool) { return i.core().Get(key) }

// Delete removes a key; the keys after it move up. It fails with ErrInfoNoKey if the key does not exist. MPI-5.0 §10.
func (i *Info) Delete(key string) error { return public(i.core().Delete(key)) }

// Len returns the number of keys. MPI-5.0 §10.
func (i *Info) Len() int { return i.core().Len() }

// Nth returns key number n, from 0 to Len()-1. MPI-5.0 §10.
func (i *Info) Nth(n int) (key string, err error) { return public2(i.core().Nth(n)) }

// Dup returns a new Info with the same keys and values in the same order. For nil it returns an empty one.
// MPI-5.0 §10.
func (i *Info) Dup() *Info { return (*Info)(i.core().Dup()) }

// All returns an iterator over the keys and values in order, as they are when the iteration starts. Not in MPI-5.0.
func (i *Info) All() iter.Seq2[string, string] { return i.core().All() }

// InfoEnv describes how the process was started, like MPI_INFO_ENV: command, argv, maxprocs, host, arch, wdir,
// thread_level. Keys without a known value are missing. Values longer than MaxInfoValue are truncated. Each call
// returns a new Info. MPI-5.0 §11.2.1.
func (p *Process) InfoEnv() *Info { return (*Info)(p.core().InfoEnv()) }
