package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
)

// ofRank returns n numbers that tell the group, the rank and the position.
func ofRank(air bool, rank, n int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = 1000*rank + i
		if air {
			x[i] += 100_000
		}
	}
	return x
}

// gathered returns the values of all ranks of a group.
func gathered(air bool, ranks, n int) (all []int) {
	for r := range ranks {
		all = append(all, ofRank(air, r, n)...)
	}
	return all
}

// sumOf returns the sum of the values of all ranks of a group.
func sumOf(air bool, ranks, n int) []int {
	sum := make([]int, n)
	for r := range ranks {
		for i, v := range ofRank(air, r, n) {
			sum[i] += v
		}
	}
	return sum
}

// interRoots calls f for each root, in both groups: with the root that this rank gives, whether it is the root, and whether it is
// in the other group.
func interRoots(c *mpi.Comm, f func(root int, isRoot, other, airRoot bool) error) error {
	air := c.Size() == 2
	var errs []error
	for _, airRoot := range []bool{true, false} {
		size := c.RemoteSize()
		if air == airRoot {
			size = c.Size()
		}
		for r := range size {
			switch {
			case air != airRoot:
				errs = append(errs, f(r, false, true, airRoot))
			case c.Rank() == r:
				errs = append(errs, f(mpi.Root, true, false, airRoot))
			default:
				errs = append(errs, f(mpi.ProcNull, false, false, airRoot))
			}
		}
	}
	return errors.Join(errs...)
}

// interRooted are the collectives with a root, on n elements.
func interRooted(c *mpi.Comm, n int) error {
	air, me := c.Size() == 2, c.Rank()
	return interRoots(c, func(root int, isRoot, other, airRoot bool) error {
		b := make([]int, n)
		if isRoot {
			b = ofRank(airRoot, 9, n)
		}
		all := make([]int, n*c.RemoteSize())
		counts := slices.Repeat([]int{n}, c.RemoteSize())
		errs := []error{mpi.Bcast(c, b, root)}
		if other {
			errs = append(errs, want("Bcast", nil, b, ofRank(airRoot, 9, n)))
		}
		err1 := mpi.Gather(c, all, ofRank(air, me, n), root)
		sum := make([]int, n)
		err2 := mpi.Reduce(c, sum, ofRank(air, me, n), mpi.Sum, root)
		errs = append(errs, err1, err2)
		if isRoot {
			errs = append(errs, want("Gather", nil, all, gathered(!air, c.RemoteSize(), n)),
				want("Reduce", nil, sum, sumOf(!air, c.RemoteSize(), n)))
		}
		clear(all)
		errs = append(errs, mpi.Gatherv(c, all, counts, nil, ofRank(air, me, n), root))
		if isRoot {
			errs = append(errs, want("Gatherv", nil, all, gathered(!air, c.RemoteSize(), n)))
		}
		x, y := make([]int, n), make([]int, n)
		from := gathered(airRoot, c.RemoteSize(), n)
		errs = append(errs, mpi.Scatter(c, x, from, root), mpi.Scatterv(c, y, from, counts, nil, root))
		if other {
			errs = append(errs, want("Scatter", nil, x, ofRank(airRoot, me, n)), want("Scatterv", nil, y, ofRank(airRoot, me, n)))
		}
		return errors.Join(errs...)
	})
}

// interSymmetric are the collectives without a root, on n elements.
func interSymmetric(c *mpi.Comm, n int) error {
	air, me, size, remote := c.Size() == 2, c.Rank(), c.Size(), c.RemoteSize()
	mine, m := ofRank(air, me, n), n+1 // the groups send different lengths
	if air {
		mine, m = ofRank(air, me, n+1), n
	}
	sum, a, b := make([]int, 6*n), make([]int, m*remote), make([]int, m*remote)
	part := make([]int, 6*n/size)
	counts, parts := slices.Repeat([]int{m}, remote), slices.Repeat([]int{6 * n / size}, size)
	errs := []error{
		mpi.Allreduce(c, sum, ofRank(air, me, 6*n), mpi.Sum), want("Allreduce", nil, sum, sumOf(!air, remote, 6*n)),
		mpi.Allgather(c, a, mine), want("Allgather", nil, a, gathered(!air, remote, m)),
		mpi.Allgatherv(c, b, counts, nil, mine), want("Allgatherv", nil, b, gathered(!air, remote, m)),
		mpi.ReduceScatter(c, part, ofRank(air, me, 6*n), parts, mpi.Sum),
		want("ReduceScatter", nil, part, sumOf(!air, remote, 6*n)[me*6*n/size:][:6*n/size]),
	}
	x, y, z := ofRank(air, me, n*remote), make([]int, n*remote), make([]int, n*remote)
	var expect []int
	for r := range remote {
		expect = append(expect, ofRank(!air, r, n*size)[me*n:][:n]...)
	}
	blocks := slices.Repeat([]int{n}, remote)
	return errors.Join(append(errs, mpi.Alltoall(c, y, x), want("Alltoall", nil, y, expect),
		mpi.Alltoallv(c, z, blocks, nil, x, blocks, nil), want("Alltoallv", nil, z, expect), c.Barrier())...)
}

func TestInterCollectives(t *testing.T) {
	for id, f := range byName(map[string]func(c *mpi.Comm, n int) error{"S6-10": interRooted, "S6-11": interSymmetric}) {
		t.Run(id, func(t *testing.T) {
			withIntercomm(t, func(_ *mpi.Process, _ *mpi.Session, c *mpi.Comm) error {
				return errors.Join(f(c, 0), f(c, 1), f(c, 7), f(c, 5000), exchange(c, 1))
			})
		})
	}
}

// TestInterValues: values of one length and of others go from group to group, and a value that cannot be encoded is an error at
// its rank and at those that should get it.
func TestInterValues(t *testing.T) {
	withIntercomm(t, func(_ *mpi.Process, _ *mpi.Session, c *mpi.Comm) error {
		return errors.Join(
			interValues(c, func(air bool, rank, to int) int { return ofRank(air, rank, to+1)[to] }),
			interValues(c, func(air bool, rank, to int) string { return fmt.Sprint(air, rank, to) }),
			interValues(c, func(air bool, rank, to int) fragile { return fragile{fmt.Sprint(air, rank, to)} }),
			interFragile(c), exchange(c, 1))
	})
}

// interValues are the collectives of values. of returns the value of a rank of a group for a rank of the other.
func interValues[T comparable](c *mpi.Comm, of func(air bool, rank, to int) T) error {
	air, me, remote := c.Size() == 2, c.Rank(), c.RemoteSize()
	var row, col, all []T
	for r := range remote {
		row, col, all = append(row, of(air, me, r)), append(col, of(!air, r, me)), append(all, of(!air, r, 0))
	}
	gathered, err := mpi.AllgatherValue(c, row[0])
	got, err1 := mpi.AlltoallValue(c, row)
	return errors.Join(err, err1, check(slices.Equal(gathered, all), "Allgather: %v, want %v", gathered, all),
		check(slices.Equal(got, col), "Alltoall: %v, want %v", got, col),
		interRoots(c, func(root int, isRoot, other, airRoot bool) error {
			var zero, mine T
			if isRoot {
				mine = of(airRoot, me, 0)
			}
			b, err := mpi.BcastValue(c, mine, root)
			g, err1 := mpi.GatherValue(c, row[0], root)
			part, err2 := mpi.ScatterValue(c, row, root)
			wantB, wantPart, wantG := mine, zero, []T(nil)
			if other {
				wantB, wantPart = of(airRoot, root, 0), of(airRoot, root, me)
			}
			if isRoot {
				wantG = all
			}
			return errors.Join(err, err1, err2, check(b == wantB, "Bcast: %v, want %v", b, wantB),
				check(slices.Equal(g, wantG), "Gather: %v, want %v", g, wantG),
				check(part == wantPart, "Scatter: %v, want %v", part, wantPart))
		}))
}

// interFragile has a rank of the first group whose value cannot be encoded.
func interFragile(c *mpi.Comm) error {
	air := c.Size() == 2
	v, root := fragile{"good"}, 0
	if air {
		if root = mpi.ProcNull; c.Rank() == 0 {
			v, root = fragile{"fails"}, mpi.Root
		}
	}
	fails := func(op string, err error, fails bool) error {
		if fails {
			return ofClass(err, mpi.ErrType)
		}
		return check(err == nil, "%s: %v", op, err)
	}
	_, err1 := mpi.BcastValue(c, v, root)
	_, err2 := mpi.ScatterValue(c, slices.Repeat([]fragile{v}, c.RemoteSize()), root)
	_, err3 := mpi.AllgatherValue(c, v)
	_, err4 := mpi.AlltoallValue(c, slices.Repeat([]fragile{v}, c.RemoteSize()))
	isRoot := root == mpi.Root
	_, err5 := mpi.GatherValue(c, &fragile{"good"}, root) // the ranks of the root's group encode nothing
	return errors.Join(fails("Gather", err5, false), fails("Bcast", err1, !air || isRoot), fails("Scatter", err2, !air || isRoot),
		fails("Allgather", err3, !air || isRoot), fails("Alltoall", err4, !air || isRoot))
}
