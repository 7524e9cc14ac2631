package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// SetInfo changes hints. Hints that info does not contain keep their values, and so do those with an invalid value.
// Unknown keys are ignored; a nil info changes nothing. SetInfo is collective. The ranks may give different hints,
// except that mpi_assert_strict_persistent_collective_ordering must have the same value at all of them afterwards:
// otherwise SetInfo fails with ErrInfoValue at every rank and changes nothing. An assertion that excludes a wildcard
// is rejected while a receive with that wildcard is pending. [Comm.GetInfo] shows the hints in force. MPI-5.0 §7.4.4.
func (c *Comm) SetInfo(info *Info) error { return public(core.SetInfo(c.core(), info.core())) }

// GetInfo returns the hints in force: all known hints with their values, including defaults. Each call returns a new
// Info, which belongs to the caller. Any goroutine may call it. MPI-5.0 §7.4.4.
func (c *Comm) GetInfo() (*Info, error) { return info(core.GetInfo(c.core())) }
