package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Partitioned communication: a message of which several goroutines fill parts, and each part leaves when it is ready.
//
//	send, err := mpi.PsendInit(c, x, 8, dst, tag) // x in 8 partitions
//	for each iteration {
//		send.Start()
//		// 8 goroutines: fill partition i of x; send.Pready(i)
//		send.Wait()
//	}
//
// The receiver makes a request with [PrecvInit], and may use a partition when [Request.Parrived] reports true. Its number of
// partitions may be another one, but the lengths of the two buffers are equal. The requests of two ranks are
// paired in the order in which they were made with the same tag; other messages are not matched. Both are persistent, and started
// equally often. They can be neither cancelled nor freed while they are active.
//
// If the lengths or the types of elements of the two sides differ, the receive fails with ErrTruncate or ErrType. If one side
// fails, so do all later collectives of the communicator.

// PsendInit creates a persistent request of a send of x in partitions of equal length, 1 to 65,536. After each Start, the send
// completes when all partitions are ready and have left; x must not change where it is ready. Elements may be structs, as in
// [Send]; those with padding are copied by [Request.Pready]. MPI-5.0 §4.2.1.
func PsendInit[T any](c *Comm, x []T, partitions, dst, tag int) (Request, error) {
	return c.psendInit(elements("PsendInit", x), len(x), partitions, dst, tag)
}

// PrecvInit creates a persistent request of a receive into x in partitions of equal length. src and tag must not be wildcards.
// MPI-5.0 §4.2.1.
func PrecvInit[T any](c *Comm, x []T, partitions, src, tag int) (Request, error) {
	return c.precvInit(elements("PrecvInit", x), len(x), partitions, src, tag)
}

// PsendInit is [PsendInit] of a view: each partition has the same part of its packed bytes, and begins and ends between elements.
// The elements of a partition are copied by [Request.Pready] unless the view is one block of memory. MPI-5.0 §4.2.1.
func (c *Comm) PsendInit(v View, partitions, dst, tag int) (Request, error) {
	return c.psendInit(v, 0, partitions, dst, tag)
}

// PrecvInit is [PrecvInit] into a view, divided as in [Comm.PsendInit]. MPI-5.0 §4.2.1.
func (c *Comm) PrecvInit(v View, partitions, src, tag int) (Request, error) {
	return c.precvInit(v, 0, partitions, src, tag)
}

// psendInit is PsendInit of the elements of a view that belong to n values of a slice; 0: those of any view.
func (c *Comm) psendInit(v View, n, partitions, dst, tag int) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError("PsendInit", v.err)
	}
	return request(core.PsendInit(c.core(), &v.data, n, partitions, dst, tag))
}

// precvInit is psendInit for PrecvInit.
func (c *Comm) precvInit(v View, n, partitions, src, tag int) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError("PrecvInit", v.err)
	}
	return request(core.PrecvInit(c.core(), &v.data, n, partitions, src, tag))
}

// Pready says that a partition of a send that was started with [PsendInit] is ready: it leaves now. Each partition must be marked
// once after each Start. Several goroutines may call it at once. MPI-5.0 §4.2.1.
func (r Request) Pready(partition int) error {
	return public(r.core().Pready("Pready", partition, partition))
}

// PreadyRange is [Request.Pready] for the partitions low to high, both included. MPI-5.0 §4.2.1.
func (r Request) PreadyRange(low, high int) error {
	return public(r.core().Pready("PreadyRange", low, high))
}

// PreadyList is [Request.Pready] for each partition of a list. It stops at the first error. MPI-5.0 §4.2.1.
func (r Request) PreadyList(partitions []int) error {
	for _, i := range partitions {
		if err := r.core().Pready("PreadyList", i, i); err != nil {
			return public(err)
		}
	}
	return nil
}

// Parrived reports whether a partition of a receive that was started has arrived: that part of the buffer can then be
// used. It makes progress if not. It reports true when the receive has completed, and for one that is not active. If the receive
// has failed, it returns the error, as a Wait after it does.
// MPI-5.0 §4.2.2.
func (r Request) Parrived(partition int) (bool, error) { return public2(r.core().Parrived(partition)) }
