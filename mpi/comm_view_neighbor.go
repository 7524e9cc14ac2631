package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Neighborhood collectives of views.

// NeighborAllgather is [NeighborAllgather] of views. dst has the data of all sources. MPI-5.0 §8.6.1.
func (c *Comm) NeighborAllgather(dst, src View) error {
	_, err := c.startNeighborAllgather(core.Blocking, dst, src)
	return err
}

// IneighborAllgather starts a NeighborAllgather. MPI-5.0 §8.7.1.
func (c *Comm) IneighborAllgather(dst, src View) (Request, error) {
	return c.startNeighborAllgather(core.Immediate, dst, src)
}

// NeighborAllgatherInit creates a persistent NeighborAllgather. MPI-5.0 §8.8.1.
func (c *Comm) NeighborAllgatherInit(dst, src View) (Request, error) {
	return c.startNeighborAllgather(core.Persistent, dst, src)
}

// NeighborAllgatherv is [NeighborAllgatherv] of views: dst has one for each source. MPI-5.0 §8.6.1.
func (c *Comm) NeighborAllgatherv(dst []View, src View) error {
	_, err := c.startNeighborAllgatherv(core.Blocking, dst, src)
	return err
}

// IneighborAllgatherv starts a NeighborAllgatherv. MPI-5.0 §8.7.1.
func (c *Comm) IneighborAllgatherv(dst []View, src View) (Request, error) {
	return c.startNeighborAllgatherv(core.Immediate, dst, src)
}

// NeighborAllgathervInit creates a persistent NeighborAllgatherv. MPI-5.0 §8.8.1.
func (c *Comm) NeighborAllgathervInit(dst []View, src View) (Request, error) {
	return c.startNeighborAllgatherv(core.Persistent, dst, src)
}

// NeighborAlltoall is [NeighborAlltoall] of views. They have a part for each source and each destination. MPI-5.0 §8.6.2.
func (c *Comm) NeighborAlltoall(dst, src View) error {
	_, err := c.startNeighborAlltoall(core.Blocking, dst, src)
	return err
}

// IneighborAlltoall starts a NeighborAlltoall. MPI-5.0 §8.7.2.
func (c *Comm) IneighborAlltoall(dst, src View) (Request, error) {
	return c.startNeighborAlltoall(core.Immediate, dst, src)
}

// NeighborAlltoallInit creates a persistent NeighborAlltoall. MPI-5.0 §8.8.2.
func (c *Comm) NeighborAlltoallInit(dst, src View) (Request, error) {
	return c.startNeighborAlltoall(core.Persistent, dst, src)
}

// NeighborAlltoallw sends src[i] to destination i, and receives into dst[i] from source i. The views may differ in everything.
// MPI-5.0 §8.6.2.
func (c *Comm) NeighborAlltoallw(dst, src []View) error {
	_, err := c.startNeighborAlltoallw(perf.IneighborAlltoallw, core.Blocking, dst, src)
	return err
}

// IneighborAlltoallw starts a NeighborAlltoallw. MPI-5.0 §8.7.2.
func (c *Comm) IneighborAlltoallw(dst, src []View) (Request, error) {
	return c.startNeighborAlltoallw(perf.IneighborAlltoallw, core.Immediate, dst, src)
}

// NeighborAlltoallwInit creates a persistent NeighborAlltoallw. MPI-5.0 §8.8.2.
func (c *Comm) NeighborAlltoallwInit(dst, src []View) (Request, error) {
	return c.startNeighborAlltoallw(perf.IneighborAlltoallw, core.Persistent, dst, src)
}

func (c *Comm) startNeighborAllgather(start core.Start, dst, src View) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.IneighborAllgather), err)
	}
	return request(c.core().NeighborAllgatherData(start, &dst.data, &src.data))
}

func (c *Comm) startNeighborAllgatherv(start core.Start, dst []View, src View) (Request, error) {
	in, err := buffersOf(dst)
	if err == nil {
		err = src.err
	}
	if err != nil {
		return Request{}, c.callError(start.Name(perf.IneighborAllgatherv), err)
	}
	return request(c.core().NeighborAllgathervData(start, in, &src.data))
}

func (c *Comm) startNeighborAlltoall(start core.Start, dst, src View) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.IneighborAlltoall), err)
	}
	return request(c.core().NeighborAlltoallData(start, &dst.data, &src.data))
}

// startNeighborAlltoallw starts a NeighborAlltoallw, recorded as call: IneighborAlltoallw, or IneighborAlltoallv of slices.
func (c *Comm) startNeighborAlltoallw(call perf.Op, start core.Start, dst, src []View) (Request, error) {
	in, err := buffersOf(dst)
	if err != nil {
		return Request{}, c.callError(start.Name(call), err)
	}
	out, err := buffersOf(src)
	if err != nil {
		return Request{}, c.callError(start.Name(call), err)
	}
	return request(c.core().NeighborAlltoallwData(call, start, in, out))
}
