package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Dup creates a communicator of the same processes in the same order, with its own message context. Its attributes
// are those that the copy callbacks return. If a callback fails at any rank, Dup fails at all ranks, and the rank
// whose callback failed gets that error. It is collective. MPI-5.0 §7.4.2.
func (c *Comm) Dup() (*Comm, error) { return comm(core.Dup(c.core())) }

// DupWithInfo is Dup with hints for the new communicator, as in SetInfo. The hints of c are not copied.
// MPI-5.0 §7.4.2.
func (c *Comm) DupWithInfo(info *Info) (*Comm, error) {
	return comm(core.DupWithInfo(c.core(), info.core()))
}

// Idup starts a Dup. The communicator can be used when the request has completed. The copy callbacks have run when
// Idup returns. If a callback fails at this rank, both results are zero; if one fails at another rank, the request
// completes with an error. Other collectives of c, including another Idup, may follow immediately. MPI-5.0 §7.4.2.
func (c *Comm) Idup() (*Comm, Request, error) {
	d, r, err := core.Idup(c.core())
	return (*Comm)(d), Request(r), public(err)
}

// IdupWithInfo starts a DupWithInfo, as Idup starts a Dup. The info may be changed when it has returned.
// MPI-5.0 §7.4.2.
func (c *Comm) IdupWithInfo(info *Info) (*Comm, Request, error) {
	d, r, err := core.IdupWithInfo(c.core(), info.core())
	return (*Comm)(d), Request(r), public(err)
}
