package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// maxLoc is a value and the rank that has it. It has padding.
type maxLoc struct {
	Rank  int8
	Value float64
}

// longElement is a struct that is longer than what shared memory has room for several of.
type longElement struct {
	At   int
	Rest [1000]int64
}

// later is an operation that is not commutative: the left operand, with the number of operands.
func later[T any](join func(a, b T) T) mpi.Op {
	return mpi.NewOp(false, func(dst, src []T) {
		for i := range dst {
			dst[i] = join(dst[i], src[i])
		}
	})
}

// reduceStructs checks all reductions of elements of a type, with operands in the order of ranks. of returns the value that joins
// the values a, ..., b of ranks.
func reduceStructs[T comparable](c *mpi.Comm, n int, of func(a, b int) T, op mpi.Op) error {
	me, size := c.Rank(), c.Size()
	src, dst := make([]T, n*size), make([]T, n*size)
	for i := range src {
		src[i] = of(me, me)
	}
	is := func(name string, got []T, want T) error {
		for i := range got {
			if got[i] != want {
				return fmt.Errorf("%s of %d %T: element %d is %v, want %v", name, len(src), want, i, got[i], want)
			}
		}
		return nil
	}
	err := mpi.Allreduce(c, dst, src, op)
	err = errors.Join(err, is("Allreduce", dst, of(0, size-1)), mpi.Scan(c, dst, src, op), is("Scan", dst, of(0, me)))
	err = errors.Join(err, mpi.Exscan(c, dst, src, op))
	if me > 0 {
		err = errors.Join(err, is("Exscan", dst, of(0, me-1)))
	}
	counts := make([]int, size)
	for i := range counts {
		counts[i] = n
	}
	err = errors.Join(err, mpi.ReduceScatter(c, dst, src, counts, op), is("ReduceScatter", dst[:n], of(0, size-1)),
		mpi.Reduce(c, dst, src, op, 1))
	if me == 1 {
		err = errors.Join(err, is("Reduce", dst, of(0, size-1)))
	}
	copy(dst, src)
	return errors.Join(err, mpi.Allreduce(c, dst, dst, op), is("Allreduce in place", dst, of(0, size-1)))
}

// TestReduceStructs: reductions of structs and arrays take operations of the program, in shared memory and with messages.
func TestReduceStructs(t *testing.T) {
	span := later(func(a, b [2]int32) [2]int32 { return [2]int32{a[0], b[1]} })
	highest := mpi.NewOp(true, func(dst, src []maxLoc) {
		for i := range dst {
			if src[i].Value > dst[i].Value {
				dst[i] = src[i]
			}
		}
	})
	first := later(func(a, b longElement) longElement { a.Rest[999] = b.Rest[999]; return a })
	for _, n := range []int{1, 700} {
		mpitest.Run(t, 3, func(p *mpi.Process) error {
			c := p.World()
			return errors.Join(
				reduceStructs(c, n, func(a, b int) [2]int32 { return [2]int32{int32(a), int32(b)} }, span),
				reduceStructs(c, n, func(_, b int) maxLoc { return maxLoc{int8(b), float64(b)} }, highest),
				reduceStructs(c, min(n, 2), func(a, b int) longElement {
					x := longElement{At: a}
					x.Rest[999] = int64(b)
					return x
				}, first))
		})
	}
}

// TestReduceStructErrors: predefined operations, operations of another type, and types with pointers or without data are errors.
func TestReduceStructErrors(t *testing.T) {
	type named struct{ Name string }
	type other maxLoc
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		c := p.World()
		x, y, none := make([]maxLoc, 1), make([]named, 1), make([]struct{}, 1)
		own := later(func(a, _ maxLoc) maxLoc { return a })
		err := ofClass(mpi.Allreduce(c, x, x, mpi.Sum), mpi.ErrOp)
		if says := fmt.Sprint(mpi.Allreduce(c, x, x, mpi.Sum)); !strings.Contains(says, "sum is not defined on mpi_test.maxLoc") {
			err = errors.Join(err, fmt.Errorf("the error says %q", says))
		}
		pointers := mpi.Reduce(c, y, y, later(func(a, _ named) named { return a }), 0)
		return errors.Join(err, ofClass(mpi.Scan(c, x, x, later(func(a, _ other) other { return a })), mpi.ErrOp),
			ofClass(mpi.Allreduce(c, []int{1}, []int{1}, own), mpi.ErrOp), ofClass(pointers, mpi.ErrType),
			check(strings.Contains(fmt.Sprint(pointers), "named.Name"), "%v does not name the field", pointers),
			ofClass(mpi.Allreduce(c, none, none, later(func(a, _ struct{}) struct{} { return a })), mpi.ErrType),
			mpi.Allreduce(c, x, x, own))
	})
}

// TestContextStructs: receives with a context and iterators take structs, and a receive that ends leaves its message to others.
func TestContextStructs(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		c := p.World()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if c.Rank() == 0 {
			x := []point{{1, 2, 3}, {4, 5, 6}}
			return errors.Join(mpi.Send(c, x, 1, 1), mpi.Send(c, x, 1, 2), mpi.Send(c, x[:1], 1, 2), mpi.Send(c, x, 1, 3))
		}
		got := make([]point, 3)
		st, err := mpi.RecvContext(ctx, c, got, 0, 1)
		err = errors.Join(err, check(mpi.Count[point](st) == 2 && got[1] == point{4, 5, 6}, "received %v", got))
		n := 0
		for m, failed := range mpi.Messages[point](ctx, c, 0, 2) {
			err = errors.Join(err, failed, check(len(m.Data) == 2-n && m.Data[0] == point{1, 2, 3}, "message %d: %v", n, m.Data))
			if n++; n == 2 || failed != nil {
				break
			}
		}
		for _, failed := range mpi.Messages[[]int](ctx, c, 0, 3) {
			err = errors.Join(err, ofClass(failed, mpi.ErrType))
		}
		cancel()
		st, stopped := mpi.RecvContext(ctx, c, got, 0, 3)
		return errors.Join(err, check(errors.Is(stopped, context.Canceled) && st.Cancelled(), "%v after cancel", stopped),
			second(mpi.RecvContext(context.Background(), c, got, 0, 3)))
	})
}

// TestLocated: MinLoc and MaxLoc find a value and the lowest rank that has it, in all forms, of Located and of other structs.
func TestLocated(t *testing.T) {
	type best struct {
		Cost float64
		Rank int
	}
	checkedAndNot(t, 4, func(p *mpi.Process) error {
		c := p.World()
		me := c.Rank()
		x := []mpi.Located[int32]{{int32(me % 2), int32(me)}, {int32(-me), int32(me)}}
		low, high := make([]mpi.Located[int32], 2), make([]mpi.Located[int32], 2)
		err := errors.Join(mpi.Allreduce(c, low, x, mpi.MinLoc), mpi.Allreduce(c, high, x, mpi.MaxLoc))
		least, most := []mpi.Located[int32]{{0, 0}, {-3, 3}}, []mpi.Located[int32]{{1, 1}, {0, 0}}
		err = errors.Join(err, check(slices.Equal(low, least), "MinLoc: %v, want %v", low, least),
			check(slices.Equal(high, most), "MaxLoc: %v, want %v", high, most))
		y, got := []best{{float64(me * me % 3), me}}, make([]best, 1)
		r, err1 := mpi.Iallreduce(c, got, y, mpi.MaxLoc)
		_, err2 := r.Wait()
		err = errors.Join(err, err1, err2, check(got[0] == best{1, 1}, "MaxLoc: %v", got))
		z, wrong := []int32{1}, []struct{ A, B float64 }{{1, 2}}
		return errors.Join(err, ofClass(mpi.Allreduce(c, z, z, mpi.MinLoc), mpi.ErrOp),
			ofClass(mpi.Allreduce(c, wrong, wrong, mpi.MaxLoc), mpi.ErrOp), ofClass(mpi.Allreduce(c, x, x, mpi.Sum), mpi.ErrOp))
	})
}

// TestHalf: numbers of 16 bits are reduced as numbers, and not as the integers that they are in memory, also in structs.
func TestHalf(t *testing.T) {
	type both struct {
		A mpi.Float16
		B mpi.BFloat16
	}
	checkedAndNot(t, 3, func(p *mpi.Process) error {
		c := p.World()
		x, y := make([]mpi.Float16, 21), make([]mpi.BFloat16, 21)
		for i := range x {
			x[i], y[i] = mpi.Float16Of(float32(c.Rank()+i)/4), mpi.BFloat16Of(float32(c.Rank()-i))
		}
		sum, most := make([]mpi.Float16, 21), make([]mpi.BFloat16, 21)
		r, err := mpi.Iallreduce(c, most, y, mpi.Max)
		errs := []error{mpi.Allreduce(c, sum, x, mpi.Sum), err}
		_, err = r.Wait()
		errs = append(errs, err)
		for i := range x {
			errs = append(errs, check(sum[i].Float32() == float32(3+3*i)/4 && most[i].Float32() == float32(2-i), "%d: %v and %v", i,
				sum[i].Float32(), most[i].Float32()))
		}
		z := []both{{mpi.Float16Of(float32(c.Rank())), mpi.BFloat16Of(2)}}
		errs = append(errs, mpi.Bcast(c, z, 2), check(z[0].A.Float32() == 2, "Bcast: %v", z[0].A.Float32()),
			ofClass(mpi.Allreduce(c, x, x, mpi.Band), mpi.ErrOp))
		return errors.Join(errs...)
	})
}

// ExampleLocated finds the rank with the lowest cost.
func ExampleLocated() {
	err := mpitest.Ranks(3, func(p *mpi.Process) error {
		c := p.World()
		best := []mpi.Located[float64]{{Value: 10 - float64(c.Rank()), Index: int32(c.Rank())}}
		if err := mpi.Allreduce(c, best, best, mpi.MinLoc); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println("rank", best[0].Index, "has", best[0].Value)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: rank 2 has 8
}
