package mpi_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
)

// viewReductions are the reductions of views in one form. A Comm has the blocking one.
type viewReductions interface {
	Reduce(dst, src mpi.View, op mpi.Op, root int) error
	Allreduce(dst, src mpi.View, op mpi.Op) error
	ReduceScatter(dst, src mpi.View, counts []int, op mpi.Op) error
	ReduceScatterBlock(dst, src mpi.View, op mpi.Op) error
	Scan(dst, src mpi.View, op mpi.Op) error
	Exscan(dst, src mpi.View, op mpi.Op) error
}

func (s started) Reduce(dst, src mpi.View, op mpi.Op, root int) error {
	return s.wait(pick(s.persistent, s.c.Ireduce, s.c.ReduceInit)(dst, src, op, root))
}

func (s started) Allreduce(dst, src mpi.View, op mpi.Op) error {
	return s.wait(pick(s.persistent, s.c.Iallreduce, s.c.AllreduceInit)(dst, src, op))
}

func (s started) ReduceScatter(dst, src mpi.View, counts []int, op mpi.Op) error {
	return s.wait(pick(s.persistent, s.c.IreduceScatter, s.c.ReduceScatterInit)(dst, src, counts, op))
}

func (s started) ReduceScatterBlock(dst, src mpi.View, op mpi.Op) error {
	return s.wait(pick(s.persistent, s.c.IreduceScatterBlock, s.c.ReduceScatterBlockInit)(dst, src, op))
}

func (s started) Scan(dst, src mpi.View, op mpi.Op) error {
	return s.wait(pick(s.persistent, s.c.Iscan, s.c.ScanInit)(dst, src, op))
}

func (s started) Exscan(dst, src mpi.View, op mpi.Op) error {
	return s.wait(pick(s.persistent, s.c.Iexscan, s.c.ExscanInit)(dst, src, op))
}

// viewForms are the forms of the reductions. In place, a persistent one is started twice and so reduces twice.
var viewForms = map[string]func(c *mpi.Comm) (form viewReductions, starts int){
	"blocking":   func(c *mpi.Comm) (viewReductions, int) { return c, 1 },
	"immediate":  func(c *mpi.Comm) (viewReductions, int) { return started{c, false}, 1 },
	"persistent": func(c *mpi.Comm) (viewReductions, int) { return started{c, true}, 2 },
}

// TestViewReductions: reductions of columns have the results of those of slices, in all forms, and store nothing beside the
// columns.
func TestViewReductions(t *testing.T) {
	for name, form := range viewForms {
		t.Run(name, func(t *testing.T) {
			checkedAndNot(t, 3, func(p *mpi.Process) error {
				c, starts := form(p.World())
				return errors.Join(reduceColumns(p.World().Rank(), c, 6), reduceColumns(p.World().Rank(), c, 6000),
					reduceInPlace(p.World().Rank(), c, starts), reduceOtherViews(p.World().Rank(), c))
			})
		})
	}
}

// reduceColumns reduces columns with n rows, n being a multiple of 6. Rank r has 100r+i in row i.
func reduceColumns(me int, c viewReductions, n int) (err error) {
	in, out := make([]int, n*2), make([]int, n*3)
	from, to := mpi.ArrayOf(in, n, 2), mpi.ArrayOf(out, n, 3)
	for i := range n {
		from.Set(100*me+i, i, 1)
	}
	src, dst := from.Col(1), to.Col(1)
	part := func(rows int) mpi.View { return to.Sub([]int{0, 1}, []int{rows, 1}) }
	// has checks the first rows of the result, and that nothing else has changed. It clears the result.
	has := func(what string, rows int, want func(i int) int) {
		for i := range out {
			v := -1
			if i%3 == 1 && i/3 < rows {
				v = want(i / 3)
			}
			if out[i] != v && err == nil {
				err = check(false, "rank %d: %s of %d rows: element %d is %d, want %d", me, what, n, i, out[i], v)
			}
			out[i] = -1
		}
	}
	do := func(err1 error) { err = errors.Join(err, err1) }
	has("nothing", n, func(int) int { return 0 }) // sets all to -1
	err = nil
	do(c.Allreduce(dst, src, mpi.Sum))
	has("Allreduce", n, func(i int) int { return 300 + 3*i })
	left := mpi.NewOp(false, func(dst, src []int) {})
	do(c.Allreduce(dst, src, left))
	has("Allreduce of the left operand", n, func(i int) int { return i })
	root := mpi.View{}
	if me == 2 {
		root = dst
	}
	do(c.Reduce(root, src, mpi.Max, 2))
	has("Reduce", pick(me == 2, 0, n), func(i int) int { return 200 + i })
	do(c.Scan(dst, src, mpi.Sum))
	has("Scan", n, func(i int) int { return []int{0, 100, 300}[me] + (me+1)*i })
	do(c.Exscan(dst, src, mpi.Sum))
	has("Exscan", pick(me == 0, n, 0), func(i int) int { return []int{0, 0, 100}[me] + me*i })
	do(c.ReduceScatterBlock(part(n/3), src, mpi.Sum))
	has("ReduceScatterBlock", n/3, func(i int) int { return 300 + 3*(me*n/3+i) })
	do(c.ReduceScatter(dst, src, []int{n / 6, n / 2, n / 3}, mpi.Min))
	has("ReduceScatter", []int{n / 6, n / 2, n / 3}[me], func(i int) int { return []int{0, n / 6, n * 2 / 3}[me] + i })
	return err
}

// reduceInPlace reduces a column into itself, in so many starts.
func reduceInPlace(me int, c viewReductions, starts int) error {
	x := []int{me, 7, me + 1, 8}
	col := mpi.ArrayOf(x, 2, 2).Col(0)
	err := c.Allreduce(col, col, mpi.Sum)
	want := []int{3, 7, 6, 8}
	if starts == 2 {
		want = []int{9, 7, 18, 8}
	}
	return errors.Join(err, check(slices.Equal(x, want), "rank %d: in place %v, want %v", me, x, want))
}

// reduceOtherViews reduces views without data, with other layouts at other ranks, and with elements that cannot be reduced.
func reduceOtherViews(me int, c viewReductions) error {
	x := []float32{1, 2, 3, 4}
	mine := mpi.ViewOf(x[:2])
	if me == 1 {
		mine = mpi.ArrayOf(x, 2, 2).Col(1) // 2, 4
	}
	out := make([]float32, 4)
	err := errors.Join(c.Allreduce(mpi.View{}, mpi.View{}, mpi.Sum), c.Allreduce(mpi.ArrayOf(out, 2, 2).Col(1), mine, mpi.Prod))
	mixed := []struct {
		A int32
		B float32
	}{{1, 2}}
	return errors.Join(err, check(slices.Equal(out, []float32{0, 2, 0, 16}), "rank %d has products %v", me, out),
		ofClass(c.Allreduce(mpi.ViewOf(mixed), mpi.ViewOf(mixed), mpi.Sum), mpi.ErrOp),
		ofClass(c.Allreduce(mine, mpi.ArrayOf(x, 2, 2).All(), mpi.Sum), mpi.ErrCount),
		ofClass(c.Scan(mine, mpi.ArrayOf(x, 2, 2).Col(5), mpi.Sum), mpi.ErrArg))
}

// TestViewReductionsBetweenGroups: over an intercommunicator each group gets the results of the other, in columns.
func TestViewReductionsBetweenGroups(t *testing.T) {
	for name, form := range viewForms {
		t.Run(name, func(t *testing.T) {
			checkedAndNot(t, 4, func(p *mpi.Process) error {
				me := p.World().Rank()
				half, err := p.World().Split(me%2, me)
				if err != nil {
					return err
				}
				inter, err := half.CreateIntercomm(0, p.World(), 1-me%2, 0)
				if err != nil {
					return err
				}
				c, _ := form(inter)
				x, y := []int{me, 7, me + 10, 7}, []int{-1, -1, -1, -1}
				src, dst := mpi.ArrayOf(x, 2, 2).Col(0), mpi.ArrayOf(y, 2, 2).Col(1)
				sum := 2*(1-me%2) + 2 // of ranks 0 and 2, or of 1 and 3
				err = c.Allreduce(dst, src, mpi.Sum)
				err = errors.Join(err, check(slices.Equal(y, []int{-1, sum, -1, sum + 20}), "rank %d: Allreduce gives %v", me, y))
				y[1], y[3] = -1, -1
				switch me { // rank 3 is the root
				case 1:
					err = errors.Join(err, c.Reduce(mpi.View{}, mpi.View{}, mpi.Max, mpi.ProcNull))
				case 3:
					err = errors.Join(err, c.Reduce(dst, mpi.View{}, mpi.Max, mpi.Root),
						check(slices.Equal(y, []int{-1, 2, -1, 12}), "Reduce gives %v", y))
				default:
					err = errors.Join(err, c.Reduce(mpi.View{}, src, mpi.Max, 1))
				}
				return errors.Join(err, inter.Free(), half.Free())
			})
		})
	}
}
