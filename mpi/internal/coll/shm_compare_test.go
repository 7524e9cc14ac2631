package coll

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// callAll lets the ranks call collectives at the same time and returns their errors.
func callAll(shms []*Shm, call func(f *Shm) error) []error {
	errs := make([]error, len(shms))
	var all sync.WaitGroup
	for r, f := range shms {
		all.Go(func() { errs[r] = call(f) })
	}
	all.Wait()
	return errs
}

// TestShmCompares: if rank 1 describes its call differently, the ranks that read its slot return an error that names it, and rank
// 1 one that names another rank. Ranks that wait for one that has failed fail as well. The calls before have been the same.
func TestShmCompares(t *testing.T) {
	op := add()
	length := 0
	src := func() []byte { return make([]byte, length) }
	for name, c := range map[string]struct {
		do     func(f *Shm) error
		silent func(rank int) bool // ranks that read nothing
	}{
		"barrier":   {do: func(f *Shm) error { return f.Barrier() }},
		"bcast":     {func(f *Shm) error { return f.Bcast(src(), 0) }, func(rank int) bool { return rank != 1 }},
		"scatter":   {func(f *Shm) error { return f.Scatter(src()[:length/f.Size], src(), 0) }, func(r int) bool { return r != 1 }},
		"reduce":    {func(f *Shm) error { return f.Reduce(src(), src(), op, 0) }, func(rank int) bool { return rank != 0 }},
		"gather":    {func(f *Shm) error { return f.Gather(src(), src()[:length/f.Size], 0) }, func(r int) bool { return r != 0 }},
		"allreduce": {do: func(f *Shm) error { return f.Allreduce(src(), src(), op) }},
		"allgather": {do: func(f *Shm) error { return f.Allgather(src(), src()[:length/f.Size]) }},
		"reduce_scatter": {do: func(f *Shm) error {
			counts := make([]int, f.Size)
			counts[0] = length / op.ElemSize
			return f.ReduceScatter(make([]byte, counts[f.Rank]*op.ElemSize), src(), counts, op)
		}},
		"alltoall": {do: func(f *Shm) error { return f.Alltoall(src(), src()) }},
	} {
		for i := range 3 * 3 * 2 {
			mode, n := []string{"flat", "oversubscribed", "NUMA"}[i%3], 2+i/3%3
			if length = 96; i >= 9 {
				length = 24 * kib
			}
			t.Run(fmt.Sprintf("%s/%s/ranks=%d/bytes=%d", name, mode, n, length), func(t *testing.T) {
				best, _ := ShmBytes(n)
				shms, _ := newShms(t, n, best, mode == "oversubscribed")
				if mode == "NUMA" {
					useNUMA(t, shms, []int32{0, 1, 0, 1}[:n])
				}
				for _, err := range callAll(shms, func(f *Shm) error { f.Begin(7); return c.do(f) }) {
					if err != nil {
						t.Fatal(err)
					}
				}
				errs := callAll(shms, func(f *Shm) error {
					f.Begin(uint64(8 + f.Rank%2 - f.Rank/3))
					return c.do(f)
				})
				found := 0
				for r, err := range errs {
					var d difference
					switch {
					case c.silent != nil && c.silent(r) && err == nil:
					case errors.As(err, &d):
						if found++; d.rank == r || d.mine == d.other {
							t.Errorf("rank %d: %v", r, err)
						}
					case errors.Is(err, errBroken):
					default:
						t.Errorf("rank %d: %v", r, err)
					}
				}
				if found == 0 {
					t.Errorf("no rank has found the difference: %v", errs)
				}
			})
		}
	}
}

// TestShmComparesKinds: if one rank calls another collective than the others, or one with another root, one finds the difference
// there or in the next Barrier, and no rank waits for ever. Not so if the others call Bcast or Scatter, in which most ranks
// publish nothing, nor in some cases if they call Gather, in which the root does not.
func TestShmComparesKinds(t *testing.T) {
	op, nodes := add(), []int32{0, 0, 1, 1, 2}
	n := len(nodes)
	buf := func() []byte { return make([]byte, 8*n) }
	type kind struct {
		name  string
		roots int
		do    func(f *Shm, root int) error
	}
	toAll := []kind{
		{"barrier", 1, func(f *Shm, _ int) error { return f.Barrier() }},
		{"allreduce", 1, func(f *Shm, _ int) error { return f.Allreduce(buf(), buf(), op) }},
		{"allgather", 1, func(f *Shm, _ int) error { return f.Allgather(buf(), make([]byte, 8)) }},
		{"reduce", n, func(f *Shm, root int) error { return f.Reduce(buf(), buf(), op, root) }},
	}
	gather := kind{"gather", n, func(f *Shm, root int) error { return f.Gather(buf(), make([]byte, 8), root) }}
	all := append([]kind{
		gather,
		{"bcast", n, func(f *Shm, root int) error { return f.Bcast(buf(), root) }},
		{"scatter", n, func(f *Shm, root int) error { return f.Scatter(make([]byte, 8), buf(), root) }},
	}, toAll...)
	check := func(numa bool, most, one kind, root, odd, oddRoot int) {
		_, least := ShmBytes(n)
		shms, broken := newShms(t, n, least, false)
		if numa {
			useNUMA(t, shms, nodes)
		}
		errs := callAll(shms, func(f *Shm) (err error) {
			if f.Rank == odd {
				f.Begin(1)
				err = one.do(f, oddRoot)
			} else {
				f.Begin(2)
				err = most.do(f, root)
			}
			if err == nil {
				f.Begin(3)
				err = f.Barrier()
			}
			return err
		})
		for r, err := range errs {
			if d := (difference{}); !broken.Load() || !errors.As(err, &d) && !errors.Is(err, errBroken) {
				t.Errorf("NUMA nodes %v, rank %d calls %s with root %d, the others %s with root %d: rank %d: %v",
					numa, odd, one.name, oddRoot, most.name, root, r, err)
			}
		}
	}
	for _, most := range all[3:] {
		for _, one := range all {
			for i := range most.roots * n * one.roots {
				for _, numa := range []bool{false, true} {
					check(numa, most, one, i%most.roots, i/most.roots%n, i/most.roots/n)
				}
			}
		}
	}
	for _, one := range toAll {
		for i := range n * n * one.roots {
			for _, numa := range []bool{false, true} {
				check(numa, gather, one, i%n, i/n%n, i/n/n)
			}
		}
	}
}

// TestShmComparesEarlier: a difference that no rank could find, because none has read anything of another one, is found in
// the next collective in which ranks read.
func TestShmComparesEarlier(t *testing.T) {
	for _, oversubscribed := range []bool{false, true} {
		best, _ := ShmBytes(2)
		shms, _ := newShms(t, 2, best, oversubscribed)
		for i, err := range callAll(shms, func(f *Shm) error {
			f.Begin(uint64(f.Rank))
			if err := f.Bcast(make([]byte, 8), f.Rank); err != nil {
				return fmt.Errorf("Bcast with two roots: %w", err)
			}
			f.Begin(5)
			if err := f.Barrier(); err == nil {
				return errors.New("the Barrier succeeds")
			} else if d := (difference{}); errors.As(err, &d) && (d.mine^d.other)<<(64-CallBits) != 0 {
				return fmt.Errorf("the Barriers differ: %w", err)
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("oversubscribed %v, rank %d: %v", oversubscribed, i, err)
			}
		}
	}
}

// TestShmComparesWithoutRace: ranks that run ahead reuse slots only when no rank reads the descriptions in them any more. With
// the smallest memory there are two slots.
func TestShmComparesWithoutRace(t *testing.T) {
	for i := range 4 {
		oversubscribed, n := i%2 == 0, 2+i/2
		_, least := ShmBytes(n)
		shms, _ := newShms(t, n, least, oversubscribed)
		for r, err := range callAll(shms, func(f *Shm) error {
			buf := make([]byte, 8)
			for i := range 3000 {
				f.Begin(uint64(i))
				var err error
				switch {
				case i%7 == 6:
					err = f.Barrier()
				case i%3 == 0:
					err = f.Reduce(buf, buf, add(), 0)
				default:
					err = f.Bcast(buf, i%3-1)
				}
				if err != nil {
					return fmt.Errorf("call %d: %w", i, err)
				}
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("oversubscribed %v, rank %d of %d: %v", oversubscribed, r, n, err)
			}
		}
	}
}
