package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// The files of the collectives have their blocking, immediate and persistent forms, for slices and
// for views.
//
// The immediate forms start a collective and return a [Request] for it. All ranks make these calls
// of a communicator in the same order, with arguments as for the blocking form. Any number may be
// in progress, and blocking collectives and messages beside them. An immediate collective does not
// match the blocking one.
//
// Until the request has completed, buffers must not be changed, those of results must not be read,
// and counts and displacements must not be changed. While the program computes, a goroutine of this
// package makes progress, which needs a processor (see GOMAXPROCS) from time to time. It polls for
// a moment, then sleeps, and ends when a call of this package waits. A request of a collective
// cannot be cancelled or freed (ErrRequest). If a process is lost, the collective fails with
// ErrProcFailed at the ranks that need it, and so do all later collectives of the communicator.
//
// A function of [NewOp] must not call this package. If it panics, the request fails with the panic
// as an error, an [attrs.PanicError].
//
// The persistent forms, whose names end in Init, create a persistent request. Each [Request.Start]
// starts it as an immediate collective, with the same buffers, whose contents may have changed. All
// ranks create the requests of a communicator in the same order as they start immediate
// collectives, and start each request equally often. Counts and displacements are not used after
// the call. What a collective must prepare, such as the order of its messages, is prepared once. A
// request is freed by [Request.Free] when it is not active. It cannot be cancelled.
//
// A view that is one block of memory is used in place. Others are packed into memory that the
// process keeps for later calls, and unpacked from it; an immediate or persistent collective has
// memory of its own, packs when it starts, and unpacks before its request completes. Where a view
// has the data of all ranks, each has the same part of its packed bytes, in the order of ranks. Of
// reductions the numbers are packed. The operation is a predefined one, or one that NewOp has made
// for the type of the numbers. A view with numbers of several kinds is an error of class ErrOp.

// callSlices makes a blocking collective of slices.
func callSlices[T any](c *Comm, x *core.Collective, dst, src []T) error {
	k, ok := core.Numbers[T]()
	if !ok {
		_, err := startElements(c, core.Blocking, x, dst, src)
		return err
	}
	x.Dst, x.Src, x.Elements = core.Bytes(dst), core.Bytes(src), k
	return public(c.core().Collectives().Call(x))
}

// startSlices starts a collective of slices.
func startSlices[T any](c *Comm, start core.Start, x *core.Collective, dst, src []T) (Request, error) {
	k, ok := core.Numbers[T]()
	if !ok {
		return startElements(c, start, x, dst, src)
	}
	x.Dst, x.Src, x.Elements = core.Bytes(dst), core.Bytes(src), k
	return request(c.core().Collectives().Start(start, x))
}

// callValues makes a blocking reduction of slices.
func callValues[T any](c *Comm, x *core.Collective, dst, src []T) error {
	x.Dst, x.Src, x.Elements = core.Bytes(dst), core.Bytes(src), core.ValuesOf[T]()
	return public(c.core().Collectives().Call(x))
}

// startValues starts a reduction of slices.
func startValues[T any](c *Comm, start core.Start, x *core.Collective, dst, src []T) (Request, error) {
	x.Dst, x.Src, x.Elements = core.Bytes(dst), core.Bytes(src), core.ValuesOf[T]()
	return request(c.core().Collectives().Start(start, x))
}

// startElements makes or starts a collective of slices of structs or arrays, which are views.
// Blocks are views of their own.
func startElements[T any](c *Comm, start core.Start, x *core.Collective, dst, src []T) (Request, error) {
	op := start.Name(x.Kind)
	var dsts, srcs []View
	var own View // where the other side has blocks
	var err error
	switch x.Kind {
	case perf.Gatherv:
		dsts, own, err = gatherParts(op, c, dst, x.To.Counts, x.To.Displs, src, x.Root)
	case perf.Scatterv:
		srcs, own, err = gatherParts(op, c, src, x.From.Counts, x.From.Displs, dst, x.Root)
	case perf.Allgatherv:
		dsts, own, err = allgatherParts(op, c, dst, x.To.Counts, x.To.Displs, src)
	case perf.NeighborAllgatherv:
		dsts, err = partsOf(op, dst, x.To.Counts, x.To.Displs)
		own = elements(op, src)
	case perf.Alltoallv:
		dsts, srcs, err = alltoallParts(op, dst, x.To.Counts, x.To.Displs, src, x.From.Counts, x.From.Displs)
	case perf.NeighborAlltoallv:
		if dsts, err = partsOf(op, dst, x.To.Counts, x.To.Displs); err == nil {
			srcs, err = partsOf(op, src, x.From.Counts, x.From.Displs)
		}
	case perf.Bcast:
		v := elements(op, dst)
		return c.startViews(start, x, &v, &View{})
	default:
		in, out := elements(op, dst), elements(op, src)
		return c.startViews(start, x, &in, &out)
	}
	if err != nil {
		return Request{}, c.callError(op, err)
	}
	return c.startLists(start, x, dsts, srcs, &own)
}

// bothBlocks returns a collective with blocks at both sides.
func bothBlocks(kind perf.Op, rcounts, rdispls, scounts, sdispls []int) *core.Collective {
	return &core.Collective{Kind: kind, To: core.Blocks(rcounts, rdispls), From: core.Blocks(scounts, sdispls)}
}

// callViews makes a blocking collective of views.
func (c *Comm) callViews(x *core.Collective, dst, src *View) error {
	_, err := c.startViews(core.Blocking, x, dst, src)
	return err
}

// startViews makes or starts a collective of views.
func (c *Comm) startViews(start core.Start, x *core.Collective, dst, src *View) (Request, error) {
	if err := firstError(dst, src); err != nil {
		return Request{}, c.callError(start.Name(x.Kind), err)
	}
	return request(c.core().Collectives().OfViews(start, x, core.Views{Dst: &dst.data, Src: &src.data}))
}

// callLists makes a blocking collective with a view for each rank.
func (c *Comm) callLists(x *core.Collective, dsts, srcs []View, own *View) error {
	_, err := c.startLists(core.Blocking, x, dsts, srcs, own)
	return err
}

// startLists makes or starts a collective with a view for each rank or neighbor. If only one side
// has such views, own is that of the other side.
func (c *Comm) startLists(start core.Start, x *core.Collective, dsts, srcs []View, own *View) (Request, error) {
	in, err := buffersOf(dsts)
	if err != nil {
		return Request{}, c.callError(start.Name(x.Kind), err)
	}
	defer in.Release()
	out, err := buffersOf(srcs)
	if err != nil {
		return Request{}, c.callError(start.Name(x.Kind), err)
	}
	defer out.Release()
	if own.err != nil {
		return Request{}, c.callError(start.Name(x.Kind), own.err)
	}
	return request(c.core().Collectives().OfViews(start, x, core.Views{Dst: &own.data, Src: &own.data, Dsts: in, Srcs: out}))
}

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
