package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Alltoall sends part i of src to rank i, and stores the part from rank i as part i of dst.
func (c *Comm) Alltoall(dst, src []byte, k Elements) error {
	if c.isInter() {
		return c.interAlltoall(collMode{call: perf.Alltoall, start: Blocking}, dst, src, k)
	}
	return c.alltoall(perf.Alltoall, dst, src, k)
}

func (c *Comm) alltoall(call perf.Op, dst, src []byte, k Elements) error {
	op := call.String()
	if err := c.beginIntracomm(call, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	err := c.alltoallBuffers(op, dst, src, k)
	if c.checks {
		err = c.compareCall(c.newCollCall(call, k, len(src)/len(c.peers)), err)
	}
	if err != nil {
		return err
	}
	if f := c.coll.shmFor(coll.OfAlltoall, len(src)/len(c.peers), k.shape(opCodeNone, 0)); f != nil {
		return c.wrapError(op, f.Alltoall(dst, src))
	}
	return c.wrapError(op, coll.Alltoall(&c.coll, dst, src))
}

// Alltoallv is Alltoall with counts and displacements in elements; nil displacements mean consecutive parts.
func (c *Comm) Alltoallv(dst []byte, rcounts, rdispls []int, src []byte, scounts, sdispls []int, k Elements) error {
	return c.alltoallv(perf.Alltoallv, dst, rcounts, rdispls, src, scounts, sdispls, k)
}

// alltoallv is Alltoallv, recorded as call: Alltoallv, Alltoallw, or a part of another one.
func (c *Comm) alltoallv(call perf.Op, dst []byte, rcounts, rdispls []int, src []byte, scounts, sdispls []int,
	k Elements,
) error {
	if c.isInter() {
		return c.interAlltoallv(collMode{call: call, start: Blocking}, dst, rcounts, rdispls, src, scounts, sdispls, k)
	}
	op := call.String()
	if err := c.beginCollective(call, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	to, from, err := c.alltoallLayouts(op, dst, rcounts, rdispls, src, scounts, sdispls, k.Size())
	if c.checks {
		desc := c.newCollCall(call, k, 0)
		desc.Counts, desc.From = from.Counts, to.Counts
		err = c.compareCall(desc, err)
	}
	if err != nil {
		return err
	}
	return c.wrapError(op, coll.Alltoallv(&c.coll, dst, to, src, from))
}

// alltoallLayouts checks the positions of the blocks that an Alltoallv receives and sends, and returns them.
func (c *Comm) alltoallLayouts(op string, dst []byte, rcounts, rdispls []int, src []byte, scounts, sdispls []int, elem int) (
	to, from coll.Layout, err error,
) {
	if err = c.checkOverlap(op, dst, src); err != nil {
		return to, from, err
	}
	if to, err = c.newLayout(op, dst, rcounts, rdispls, elem); err != nil {
		return to, from, err
	}
	if nothing := len(dst) == 0 && len(src) == 0 && scounts == nil; nothing || sameStart(dst, src) {
		return to, to, nil
	}
	from, err = c.newLayout(op, src, scounts, sdispls, elem)
	return to, from, err
}
