package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Collectives of views. A view that is one block of memory is used in place. Others are packed into memory that the process keeps
// for later calls, and unpacked from it. Where a view has the data of all ranks, each has the same part of its packed bytes, in
// the order of ranks.

// buffersOf returns the data of views, until Release, or the error of one.
func buffersOf(views []View) (*core.Buffers, error) {
	l := core.TakeBuffers()
	for i := range views {
		if err := views[i].err; err != nil {
			l.Release()
			return nil, err
		}
		l.Add(&views[i].data)
	}
	return l, nil
}

// Bcast is [Bcast] of a view. MPI-5.0 §6.4.
func (c *Comm) Bcast(v View, root int) error {
	if v.err != nil {
		return c.callError("Bcast", v.err)
	}
	return public(c.core().BcastData(&v.data, root))
}

// Gather is [Gather] of views. dst has the data of all ranks; ranks other than root give the zero View. MPI-5.0 §6.5.
func (c *Comm) Gather(dst, src View, root int) error {
	if dst.err != nil || src.err != nil {
		return c.callError("Gather", firstError(&dst, &src))
	}
	return public(c.core().GatherData(&dst.data, &src.data, root))
}

// Scatter is [Scatter] of views. src has the data of all ranks; ranks other than root give the zero View. MPI-5.0 §6.6.
func (c *Comm) Scatter(dst, src View, root int) error {
	if dst.err != nil || src.err != nil {
		return c.callError("Scatter", firstError(&dst, &src))
	}
	return public(c.core().ScatterData(&dst.data, &src.data, root))
}

// Allgather is [Allgather] of views. dst has the data of all ranks. MPI-5.0 §6.7.
func (c *Comm) Allgather(dst, src View) error {
	if dst.err != nil || src.err != nil {
		return c.callError("Allgather", firstError(&dst, &src))
	}
	return public(c.core().AllgatherData(&dst.data, &src.data))
}

// Alltoall is [Alltoall] of views. Both have a part for each rank. MPI-5.0 §6.8.
func (c *Comm) Alltoall(dst, src View) error {
	if dst.err != nil || src.err != nil {
		return c.callError("Alltoall", firstError(&dst, &src))
	}
	return public(c.core().AlltoallData(&dst.data, &src.data))
}

// Gatherv is [Gatherv] of views: dst has one for each rank at root, and is nil at others. MPI-5.0 §6.5.
func (c *Comm) Gatherv(dst []View, src View, root int) error {
	in, err := buffersOf(dst)
	if err != nil {
		return c.callError("Gatherv", err)
	}
	defer in.Release()
	if src.err != nil {
		return c.callError("Gatherv", src.err)
	}
	return public(c.core().GathervData(in, &src.data, root))
}

// Scatterv is [Scatterv] of views: src has one for each rank at root, and is nil at others. MPI-5.0 §6.6.
func (c *Comm) Scatterv(dst View, src []View, root int) error {
	out, err := buffersOf(src)
	if err != nil {
		return c.callError("Scatterv", err)
	}
	defer out.Release()
	if dst.err != nil {
		return c.callError("Scatterv", dst.err)
	}
	return public(c.core().ScattervData(&dst.data, out, root))
}

// Allgatherv is [Allgatherv] of views: dst has one for each rank. MPI-5.0 §6.7.
func (c *Comm) Allgatherv(dst []View, src View) error {
	in, err := buffersOf(dst)
	if err != nil {
		return c.callError("Allgatherv", err)
	}
	defer in.Release()
	if src.err != nil {
		return c.callError("Allgatherv", src.err)
	}
	return public(c.core().AllgathervData(in, &src.data))
}

// Alltoallw sends src[i] to rank i, and receives into dst[i] from rank i. The views may differ in everything; their lengths are
// those of the messages. MPI-5.0 §6.8.
func (c *Comm) Alltoallw(dst, src []View) error { return c.alltoallw(perf.Alltoallw, dst, src) }

// alltoallw is Alltoallw, recorded as call: that, or Alltoallv of slices.
func (c *Comm) alltoallw(call perf.Op, dst, src []View) error {
	in, err := buffersOf(dst)
	if err != nil {
		return c.callError(call.String(), err)
	}
	defer in.Release()
	out, err := buffersOf(src)
	if err != nil {
		return c.callError(call.String(), err)
	}
	defer out.Release()
	return public(c.core().AlltoallwData(call, in, out))
}
