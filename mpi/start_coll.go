package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// The bodies of collectives that do not block, of slices and of views: start says whether they are immediate or persistent.

func startBcast[T any](c *Comm, start core.Start, x []T, root int) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().Ibcast(start, core.Bytes(x), core.NumbersOf[T](), root))
	}
	return c.startBcast(start, elements(start.Name(perf.Ibcast), x), root)
}

func (c *Comm) startBcast(start core.Start, v View, root int) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError(start.Name(perf.Ibcast), v.err)
	}
	return request(c.core().IbcastData(start, &v.data, root))
}

func startGather[T any](c *Comm, start core.Start, dst, src []T, root int) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().Igather(start, core.Bytes(dst), core.Bytes(src), core.NumbersOf[T](), root))
	}
	op := start.Name(perf.Igather)
	return c.startGather(start, elements(op, dst), elements(op, src), root)
}

func (c *Comm) startGather(start core.Start, dst, src View, root int) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.Igather), err)
	}
	return request(c.core().IgatherData(start, &dst.data, &src.data, root))
}

func startScatter[T any](c *Comm, start core.Start, dst, src []T, root int) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().Iscatter(start, core.Bytes(dst), core.Bytes(src), core.NumbersOf[T](), root))
	}
	op := start.Name(perf.Iscatter)
	return c.startScatter(start, elements(op, dst), elements(op, src), root)
}

func (c *Comm) startScatter(start core.Start, dst, src View, root int) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.Iscatter), err)
	}
	return request(c.core().IscatterData(start, &dst.data, &src.data, root))
}

func startAllgather[T any](c *Comm, start core.Start, dst, src []T) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().Iallgather(start, core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
	}
	op := start.Name(perf.Iallgather)
	return c.startAllgather(start, elements(op, dst), elements(op, src))
}

func (c *Comm) startAllgather(start core.Start, dst, src View) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.Iallgather), err)
	}
	return request(c.core().IallgatherData(start, &dst.data, &src.data))
}

func startAlltoall[T any](c *Comm, start core.Start, dst, src []T) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().Ialltoall(start, core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
	}
	op := start.Name(perf.Ialltoall)
	return c.startAlltoall(start, elements(op, dst), elements(op, src))
}

func (c *Comm) startAlltoall(start core.Start, dst, src View) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.Ialltoall), err)
	}
	return request(c.core().IalltoallData(start, &dst.data, &src.data))
}

func startGatherv[T any](c *Comm, start core.Start, dst []T, counts, displs []int, src []T, root int) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().Igatherv(start, core.Bytes(dst), counts, displs, core.Bytes(src), core.NumbersOf[T](), root))
	}
	op := start.Name(perf.Igatherv)
	parts, own, err := gatherParts(op, c, dst, counts, displs, src, root)
	if err != nil {
		return Request{}, c.callError(op, err)
	}
	return c.startGatherv(start, parts, own, root)
}

func (c *Comm) startGatherv(start core.Start, dst []View, src View, root int) (Request, error) {
	in, err := buffersOf(dst)
	if err == nil {
		err = src.err
	}
	if err != nil {
		return Request{}, c.callError(start.Name(perf.Igatherv), err)
	}
	return request(c.core().IgathervData(start, in, &src.data, root))
}

func startScatterv[T any](c *Comm, start core.Start, dst, src []T, counts, displs []int, root int) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().Iscatterv(start, core.Bytes(dst), core.Bytes(src), counts, displs, core.NumbersOf[T](), root))
	}
	op := start.Name(perf.Iscatterv)
	parts, own, err := gatherParts(op, c, src, counts, displs, dst, root)
	if err != nil {
		return Request{}, c.callError(op, err)
	}
	return c.startScatterv(start, own, parts, root)
}

func (c *Comm) startScatterv(start core.Start, dst View, src []View, root int) (Request, error) {
	out, err := buffersOf(src)
	if err == nil {
		err = dst.err
	}
	if err != nil {
		return Request{}, c.callError(start.Name(perf.Iscatterv), err)
	}
	return request(c.core().IscattervData(start, &dst.data, out, root))
}

func startAllgatherv[T any](c *Comm, start core.Start, dst []T, counts, displs []int, src []T) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().Iallgatherv(start, core.Bytes(dst), counts, displs, core.Bytes(src), core.NumbersOf[T]()))
	}
	op := start.Name(perf.Iallgatherv)
	parts, own, err := allgatherParts(op, c, dst, counts, displs, src)
	if err != nil {
		return Request{}, c.callError(op, err)
	}
	return c.startAllgatherv(start, parts, own)
}

func (c *Comm) startAllgatherv(start core.Start, dst []View, src View) (Request, error) {
	in, err := buffersOf(dst)
	if err == nil {
		err = src.err
	}
	if err != nil {
		return Request{}, c.callError(start.Name(perf.Iallgatherv), err)
	}
	return request(c.core().IallgathervData(start, in, &src.data))
}

func startAlltoallv[T any](c *Comm, start core.Start, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (
	Request, error,
) {
	if core.IsNumber[T]() {
		return request(c.core().Ialltoallv(start, core.Bytes(dst), rcounts, rdispls, core.Bytes(src), scounts, sdispls,
			core.NumbersOf[T]()))
	}
	const call = perf.Ialltoallv
	op := start.Name(call)
	in, out, err := alltoallParts(op, dst, rcounts, rdispls, src, scounts, sdispls)
	if err != nil {
		return Request{}, c.callError(op, err)
	}
	return c.startAlltoallw(call, start, in, out)
}

// startAlltoallw starts an Alltoallw, recorded as call: Ialltoallw, or Ialltoallv of slices.
func (c *Comm) startAlltoallw(call perf.Op, start core.Start, dst, src []View) (Request, error) {
	in, err := buffersOf(dst)
	if err != nil {
		return Request{}, c.callError(start.Name(call), err)
	}
	out, err := buffersOf(src)
	if err != nil {
		return Request{}, c.callError(start.Name(call), err)
	}
	return request(c.core().IalltoallwData(call, start, in, out))
}
