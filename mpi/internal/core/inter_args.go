package core

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// checkInterRoot returns an error unless root is Root, ProcNull or a rank of the other group.
func (a *arguments) checkInterRoot(root int) error {
	if root == Root || root == ProcNull {
		return nil
	}
	return a.checkRoot(root)
}

// checkApart returns an error for buffers that share memory: on an intercommunicator no collective
// is in place.
func checkApart(dst, src []byte) error {
	if overlap(dst, src) {
		return WithClass(ErrBuffer, errors.New("dst and src overlap, but there is no collective in place on an intercommunicator"))
	}
	return nil
}

// prepareInter checks the arguments of a collective on an intercommunicator, and sets the blocks
// and the operation.
func (a *arguments) prepareInter(x *Collective, o *coll.Operation) error {
	var err error
	switch x.Kind {
	case perf.Bcast, perf.Gather, perf.Gatherv, perf.Scatter, perf.Scatterv, perf.Reduce:
		if err = a.checkInterRoot(x.Root); err != nil || x.Root != Root {
			break
		}
		err = a.interRootBuffers(x)
	case perf.ReduceScatter, perf.ReduceScatterBlock:
		if err = a.interResults(x); err == nil {
			err = checkApart(x.Dst, x.Src)
		}
	default:
		if err = checkApart(x.Dst, x.Src); err == nil {
			err = a.interBuffers(x)
		}
	}
	if err == nil && x.isReduction() {
		err = setOperation(o, x.Elements, x.Op)
	}
	return err
}

// interRootBuffers checks the buffer that the root has for the ranks of the other group.
func (a *arguments) interRootBuffers(x *Collective) (err error) {
	elem := x.Elements.Size()
	switch x.Kind {
	case perf.Gather:
		err = a.checkDivisible(x.Dst, elem)
	case perf.Scatter:
		err = a.checkDivisible(x.Src, elem)
	case perf.Gatherv:
		x.To, err = a.newLayout(x.Dst, x.To, elem)
	case perf.Scatterv:
		x.From, err = a.newLayout(x.Src, x.From, elem)
	}
	return err
}

// interBuffers checks the buffers of a collective without a root, which are apart.
func (a *arguments) interBuffers(x *Collective) (err error) {
	elem := x.Elements.Size()
	switch x.Kind {
	case perf.Allreduce:
		err = checkSameSize(x.Dst, x.Src)
	case perf.Allgather:
		err = a.checkDivisible(x.Dst, elem)
	case perf.Allgatherv:
		x.To, err = a.newLayout(x.Dst, x.To, elem)
	case perf.Alltoall:
		if err = a.checkDivisible(x.Src, elem); err == nil {
			err = a.checkDivisible(x.Dst, elem)
		}
	case perf.Alltoallv, perf.Alltoallw:
		if x.To, err = a.newLayout(x.Dst, x.To, elem); err == nil {
			x.From, err = a.newLayout(x.Src, x.From, elem)
		}
	}
	return err
}

// interResults checks the counts of a ReduceScatter, which are those of the local group, and sets
// the positions of the results.
func (a *arguments) interResults(x *Collective) error {
	counts, elem := x.To.Counts, x.Elements.Size()
	if len(counts) != a.local {
		return faultf(ErrCount, "got %d counts; want one for each of the %d ranks of this group",
			len(counts), a.local)
	}
	left := len(x.Src) / elem
	x.To = coll.Layout{Counts: counts, Elem: elem}
	for i, n := range counts {
		if n < 0 || n > left {
			return faultf(ErrCount, "count %d of rank %d is negative, or the sum is above that of src", n, i)
		}
		x.To.Displs = append(x.To.Displs, len(x.Src)/elem-left)
		left -= n
	}
	if mine := counts[a.rank]; left != 0 || len(x.Dst)/elem < mine {
		return faultf(ErrCount, "src has %d elements more than the sum of counts, and dst has %d of %d",
			left, len(x.Dst)/elem, mine)
	}
	return nil
}
