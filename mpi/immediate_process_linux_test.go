package mpi_test

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/mpi"
)

// longImmediates makes immediate collectives of long blocks, several at once, which processes copy directly if that is allowed.
// Some are in place. Every number of a buffer depends on its position and on the rank.
func longImmediates(c *mpi.Comm) error {
	const length, root = 90_000, 1 // of int32
	n, me := c.Size(), c.Rank()
	numbers := func(count, factor int) []int32 {
		x := make([]int32, count)
		for i := range x {
			x[i] = int32(i%5000*factor + 1)
		}
		return x
	}
	var all, columns, block []int32
	for r := range n {
		all = append(all, numbers(length, r)...)
		columns = append(columns, numbers(n*length, r)[me*length:][:length]...)
	}
	block = numbers(n*length, root)[me*length:][:length]
	sum := numbers(n*length, n*(n-1)/2)
	for i := range sum {
		sum[i] += int32(n - 1)
	}
	mine, whole := numbers(length, me), numbers(n*length, me)
	buffer := func(x []int32) []int32 { return slices.Clone(x) }
	inPlace := make([]int32, n*length)
	copy(inPlace[me*length:], mine)
	got := [][]int32{numbers(length, me), make([]int32, length), make([]int32, n*length), inPlace, make([]int32, n*length),
		buffer(whole), make([]int32, n*length), buffer(whole), make([]int32, length), buffer(whole)}
	want := [][]int32{numbers(length, root), block, all, all, columns, columns, sum, sum, sum[me*length:][:length],
		sum[me*length:][:length]}
	counts := slices.Repeat([]int{length}, n)
	reqs, errs := make([]mpi.Request, len(got)), make([]error, len(got))
	reqs[0], errs[0] = mpi.Ibcast(c, got[0], root)
	reqs[1], errs[1] = mpi.Iscatter(c, got[1], whole, root)
	reqs[2], errs[2] = mpi.Iallgather(c, got[2], mine)
	reqs[3], errs[3] = mpi.Iallgather(c, got[3], got[3][me*length:][:length])
	reqs[4], errs[4] = mpi.Ialltoall(c, got[4], whole)
	reqs[5], errs[5] = mpi.Ialltoall(c, got[5], got[5])
	reqs[6], errs[6] = mpi.Iallreduce(c, got[6], whole, mpi.Sum)
	reqs[7], errs[7] = mpi.Iallreduce(c, got[7], got[7], mpi.Sum)
	reqs[8], errs[8] = mpi.IreduceScatter(c, got[8], whole, counts, mpi.Sum)
	reqs[9], errs[9] = mpi.IreduceScatter(c, got[9][:length], got[9], counts, mpi.Sum)
	got[9] = got[9][:length]
	err := errors.Join(append(errs, mpi.Waitall(reqs, nil))...)
	for i := range got {
		if err == nil && !slices.Equal(got[i], want[i]) {
			err = check(false, "immediate collective %d of rank %d is wrong", i, me)
		}
	}
	return err
}

// killedCopyingAtOnce kills the last process at some time while several long immediate collectives are in progress.
func killedCopyingAtOnce(p *mpi.Process) error {
	w := p.World()
	err := killSelf(w, 40) // the memory is shared from now on
	for err == nil {
		err = longImmediates(w)
	}
	if !errors.Is(err, mpi.ErrProcFailed) {
		return err
	}
	return nil
}
