package mpi_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// forms are the ways in which collectives run: over memory shared by the ranks, by messages, and on two levels.
var forms = map[string]mpitest.Options{
	"shared":   {},
	"nodes":    {Machine: pairedNodes},
	"messages": {Wrap: func(t fabric.Transport) fabric.Transport { return hook.Wrap(t, hook.Options{Seed: 1}) }},
}

// pairedNodes puts the ranks 0 and 1 on one node, 2 and 3 on the next one, and so on.
func pairedNodes(rank int) mpitest.Machine { return mpitest.Machine{Name: fmt.Sprint("node ", rank/2)} }

// eachAlgorithm runs a program with both kinds of algorithms on several numbers of ranks.
func eachAlgorithm(t *testing.T, ranks []int, f func(p *mpi.Process) error) {
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		o := forms[name]
		for _, n := range ranks {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) { mpitest.RunWith(t, n, o, f) })
		}
	}
}

// Types of a program's own.
type (
	celsius float32
	flag    bool
	id      int
)

// element defines how to make values of a type so that no operation rounds, and the expected operations on them.
type element[T mpi.Elem] struct {
	of  func(i int) T
	ops map[mpi.Op]func(a, b T) T
}

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~uintptr
}

func reals[T integer | ~float32 | ~float64]() element[T] {
	return element[T]{
		of: func(i int) T { return T(i%3 + 1) },
		ops: map[mpi.Op]func(a, b T) T{
			mpi.Sum:  func(a, b T) T { return a + b },
			mpi.Prod: func(a, b T) T { return a * b },
			mpi.Min:  func(a, b T) T { return min(a, b) },
			mpi.Max:  func(a, b T) T { return max(a, b) },
		},
	}
}

func integers[T integer]() element[T] {
	truth := func(b bool) T {
		if b {
			return 1
		}
		return 0
	}
	e := reals[T]()
	e.of = func(i int) T { return T(i * 5 % 7) }
	e.ops[mpi.Band] = func(a, b T) T { return a & b }
	e.ops[mpi.Bor] = func(a, b T) T { return a | b }
	e.ops[mpi.Bxor] = func(a, b T) T { return a ^ b }
	e.ops[mpi.Land] = func(a, b T) T { return truth(a != 0 && b != 0) }
	e.ops[mpi.Lor] = func(a, b T) T { return truth(a != 0 || b != 0) }
	e.ops[mpi.Lxor] = func(a, b T) T { return truth((a != 0) != (b != 0)) }
	return e
}

func complexes[T ~complex64 | ~complex128]() element[T] {
	return element[T]{
		of: func(i int) T { return T(complex(float64(i%3), float64(1-i%2))) },
		ops: map[mpi.Op]func(a, b T) T{
			mpi.Sum:  func(a, b T) T { return a + b },
			mpi.Prod: func(a, b T) T { return a * b },
		},
	}
}

func booleans[T ~bool]() element[T] {
	and, or, xor := func(a, b T) T { return a && b }, func(a, b T) T { return a || b }, func(a, b T) T { return a != b }
	return element[T]{
		of: func(i int) T { return i%3 != 0 },
		ops: map[mpi.Op]func(a, b T) T{
			mpi.Land: and, mpi.Band: and, mpi.Lor: or, mpi.Bor: or, mpi.Lxor: xor, mpi.Bxor: xor,
		},
	}
}

// affine returns maps x -> a*x + b on 32-bit numbers, packed in a word. Their composition is associative and not
// commutative.
func affine() element[uint64] {
	compose := func(f, g uint64) uint64 {
		a, b := uint32(f>>32), uint32(f)
		return uint64(a*uint32(g>>32))<<32 | uint64(a*uint32(g)+b)
	}
	each := func(dst, src []uint64) {
		for i := range dst {
			dst[i] = compose(dst[i], src[i])
		}
	}
	return element[uint64]{
		of:  func(i int) uint64 { return uint64(2*i+3)<<32 | uint64(i*i+1) },
		ops: map[mpi.Op]func(a, b uint64) uint64{mpi.NewOp(false, each): compose},
	}
}

// gcd is a commutative user-defined operation.
func gcd() element[id] {
	f := func(a, b id) id {
		for b != 0 {
			a, b = b, a%b
		}
		return a
	}
	return element[id]{
		of: func(i int) id { return id((i%4 + 1) * 12) },
		ops: map[mpi.Op]func(a, b id) id{mpi.NewOp(true, func(dst, src []id) {
			for i := range dst {
				dst[i] = f(dst[i], src[i])
			}
		}): f},
	}
}

// collTest is one set of collectives: the values of each rank, and the expected results, which each rank computes by
// itself.
type collTest[T mpi.Elem] struct {
	element[T]
	c     *mpi.Comm
	count int
	root  int
}

func (r *collTest[T]) rank() int { return r.c.Rank() }

// block returns count elements of rank's values, beginning with number salt.
func (r *collTest[T]) block(rank, count, salt int) []T {
	b := make([]T, count)
	for i := range b {
		b[i] = r.of(rank*31 + salt + i)
	}
	return b
}

// all returns the blocks of all ranks, one after the other.
func (r *collTest[T]) all(count, salt int) []T {
	b := make([]T, 0, r.c.Size()*count)
	for i := range r.c.Size() {
		b = append(b, r.block(i, count, salt)...)
	}
	return b
}

// fold combines the blocks of ranks 0 to last in their order.
func (r *collTest[T]) fold(f func(a, b T) T, last int) []T {
	out := r.block(0, r.count, 0)
	for rank := 1; rank <= last; rank++ {
		for i, v := range r.block(rank, r.count, 0) {
			out[i] = f(out[i], v)
		}
	}
	return out
}

// want compares the result of a call that must have returned no error.
func want[T mpi.Elem](what string, err error, got, want []T) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			return fmt.Errorf("%s: got %v, want %v", what, abbreviate(got), abbreviate(want))
		}
	}
	return nil
}

func abbreviate[T any](x []T) string {
	if len(x) > 12 {
		return fmt.Sprintf("%v and %d more", x[:12], len(x)-12)
	}
	return fmt.Sprint(x)
}

// check runs every collective with a root, and if all is set the others as well, with separate buffers and in place.
func (r *collTest[T]) check(all bool) error {
	calls := []func() error{r.bcast, r.gather, r.scatter, r.raggedAtRoot, r.reductions(r.reduce)}
	if all {
		calls = append(calls, r.allgather, r.alltoall, r.ragged, r.exchange, r.reductions(r.allreduce), r.reductions(r.scan),
			r.reductions(r.reduceScatter), r.c.Barrier)
	}
	for _, f := range calls {
		if err := f(); err != nil {
			return fmt.Errorf("%T of %d, root %d: %w", r.of(0), r.count, r.root, err)
		}
	}
	return nil
}

func (r *collTest[T]) bcast() error {
	x := r.block(r.rank(), r.count, 0)
	err := mpi.Bcast(r.c, x, r.root)
	return want("Bcast", err, x, r.block(r.root, r.count, 0))
}

// atRoot is b at the root, and nil elsewhere.
func (r *collTest[T]) atRoot(b []T) []T {
	if r.rank() != r.root {
		return nil
	}
	return b
}

func (r *collTest[T]) gather() error {
	n, k := r.c.Size(), r.count
	all := r.all(k, 0)
	dst := r.atRoot(make([]T, n*k))
	err := mpi.Gather(r.c, dst, r.block(r.rank(), k, 0), r.root)
	errs := []error{want("Gather", err, dst, r.atRoot(all))}
	for _, own := range []bool{false, true} { // in place is the whole, or the root's own part of it
		dst, src := r.atRoot(make([]T, n*k)), r.block(r.rank(), k, 0)
		if dst != nil {
			copy(dst[r.root*k:], src)
			if src = dst; own || n == 1 {
				src = dst[r.root*k : (r.root+1)*k]
			}
		}
		err := mpi.Gather(r.c, dst, src, r.root)
		errs = append(errs, want("Gather in place", err, dst, r.atRoot(all)))
	}
	return errors.Join(errs...)
}

func (r *collTest[T]) scatter() error {
	n, k := r.c.Size(), r.count
	all, mine := r.all(k, 0), r.block(r.rank(), k, 0)
	dst := make([]T, k)
	err := mpi.Scatter(r.c, dst, r.atRoot(all), r.root)
	errs := []error{want("Scatter", err, dst, mine)}
	for _, own := range []bool{false, true} {
		src, dst := r.atRoot(slices.Clone(all)), make([]T, k)
		if src != nil {
			if dst = src; own || n == 1 {
				dst = src[r.root*k : (r.root+1)*k]
			}
		}
		err := mpi.Scatter(r.c, dst, src, r.root)
		if src != nil {
			errs = append(errs, want("Scatter in place", err, src, all))
		} else {
			errs = append(errs, want("Scatter in place", err, dst, mine))
		}
	}
	return errors.Join(errs...)
}

func (r *collTest[T]) allgather() error {
	n, k := r.c.Size(), r.count
	all, mine := r.all(k, 0), r.block(r.rank(), k, 0)
	dst := make([]T, n*k)
	err := mpi.Allgather(r.c, dst, mine)
	errs := []error{want("Allgather", err, dst, all)}
	for _, own := range []bool{false, true} {
		dst := make([]T, n*k)
		part := dst[r.rank()*k : (r.rank()+1)*k]
		copy(part, mine)
		src := dst
		if own {
			src = part
		}
		err := mpi.Allgather(r.c, dst, src)
		errs = append(errs, want("Allgather in place", err, dst, all))
	}
	return errors.Join(errs...)
}

func (r *collTest[T]) alltoall() error {
	n, k := r.c.Size(), r.count
	src, out := make([]T, 0, n*k), make([]T, 0, n*k)
	for i := range n {
		src = append(src, r.block(r.rank(), k, 100*i)...)
		out = append(out, r.block(i, k, 100*r.rank())...)
	}
	dst := make([]T, n*k)
	err := mpi.Alltoall(r.c, dst, src)
	errs := []error{want("Alltoall", err, dst, out)}
	err = mpi.Alltoall(r.c, src, src)
	return errors.Join(append(errs, want("Alltoall in place", err, src, out))...)
}

// places returns the counts and displacements of n blocks of different lengths, some empty, in reverse order and with
// gaps, and the total length.
func places(n, count int) (counts, displs []int, total int) {
	counts, displs = make([]int, n), make([]int, n)
	for i := n - 1; i >= 0; i-- {
		counts[i] = count * ((i + 1) % 3)
		displs[i] = total
		total += counts[i] + i%2
	}
	return counts, displs, total
}

// spread stores the blocks of all ranks at the positions that counts and displs define.
func (r *collTest[T]) spread(counts, displs []int, total int) []T {
	b := make([]T, total)
	for i := range counts {
		copy(b[displs[i]:], r.block(i, counts[i], 0))
	}
	return b
}

// raggedBlocks are the blocks of places: the part of this rank, the whole, and what they are made with.
type raggedBlocks[T mpi.Elem] struct {
	counts, displs []int
	me             int
	mine, all      []T
}

func (r *collTest[T]) raggedBlocks() raggedBlocks[T] {
	counts, displs, total := places(r.c.Size(), r.count)
	me := r.rank()
	return raggedBlocks[T]{counts, displs, me, r.block(me, counts[me], 0), r.spread(counts, displs, total)}
}

// own returns the part of a whole that is this rank's block.
func (x *raggedBlocks[T]) own(b []T) []T { return b[x.displs[x.me] : x.displs[x.me]+x.counts[x.me]] }

// alone returns a whole with nothing but this rank's block.
func (x *raggedBlocks[T]) alone() []T {
	b := make([]T, len(x.all))
	copy(x.own(b), x.mine)
	return b
}

// raggedAtRoot runs the collectives with a root and a count for each rank.
func (r *collTest[T]) raggedAtRoot() error {
	x := r.raggedBlocks()
	counts, displs, mine, all, total := x.counts, x.displs, x.mine, x.all, len(x.all)
	dst := r.atRoot(make([]T, total))
	err := mpi.Gatherv(r.c, dst, counts, displs, mine, r.root)
	errs := []error{want("Gatherv", err, dst, r.atRoot(all))}
	dst, src := r.atRoot(x.alone()), mine
	if dst != nil {
		src = x.own(dst)
	}
	err = mpi.Gatherv(r.c, dst, counts, displs, src, r.root)
	errs = append(errs, want("Gatherv in place", err, dst, r.atRoot(all)))
	part := make([]T, len(mine))
	err = mpi.Scatterv(r.c, part, r.atRoot(all), counts, displs, r.root)
	errs = append(errs, want("Scatterv", err, part, mine))
	src, part = r.atRoot(slices.Clone(all)), make([]T, len(mine))
	if src != nil {
		part = x.own(src)
	}
	err = mpi.Scatterv(r.c, part, src, counts, displs, r.root)
	return errors.Join(append(errs, want("Scatterv in place", err, part, mine),
		want("Scatterv in place", err, src, r.atRoot(all)))...)
}

// ragged runs Allgatherv.
func (r *collTest[T]) ragged() error {
	x := r.raggedBlocks()
	whole := make([]T, len(x.all))
	err := mpi.Allgatherv(r.c, whole, x.counts, x.displs, x.mine)
	errs := []error{want("Allgatherv", err, whole, x.all)}
	for _, in := range []func(b []T) []T{x.own, func(b []T) []T { return b }} {
		whole := x.alone()
		err = mpi.Allgatherv(r.c, whole, x.counts, x.displs, in(whole))
		errs = append(errs, want("Allgatherv in place", err, whole, x.all))
	}
	return errors.Join(errs...)
}

// exchange runs Alltoallv: rank i sends (i+j)%3 blocks to rank j. In place, the counts of both directions are equal.
func (r *collTest[T]) exchange() error {
	n, me := r.c.Size(), r.rank()
	counts := make([]int, n)
	var src, out []T
	for i := range n {
		counts[i] = r.count * ((me + i) % 3)
		src = append(src, r.block(me, counts[i], 100*i)...)
		out = append(out, r.block(i, counts[i], 100*me)...)
	}
	dst := make([]T, len(src))
	err := mpi.Alltoallv(r.c, dst, counts, nil, src, counts, nil)
	errs := []error{want("Alltoallv", err, dst, out)}
	err = mpi.Alltoallv(r.c, src, counts, nil, src, nil, nil)
	return errors.Join(append(errs, want("Alltoallv in place", err, src, out))...)
}

// reductions returns a function that runs a reduction with every operation.
func (r *collTest[T]) reductions(reduction func(op mpi.Op, f func(a, b T) T) error) func() error {
	return func() error {
		for op, f := range r.ordered() {
			if err := reduction(op, f); err != nil {
				return fmt.Errorf("%v: %w", op, err)
			}
		}
		return nil
	}
}

// ordered are the operations in the same order at all ranks.
func (r *collTest[T]) ordered() func(yield func(mpi.Op, func(a, b T) T) bool) {
	ops := []mpi.Op{
		mpi.Sum, mpi.Prod, mpi.Min, mpi.Max, mpi.Band, mpi.Bor, mpi.Bxor, mpi.Land, mpi.Lor, mpi.Lxor,
	}
	for op := range r.ops {
		if !slices.Contains(ops, op) {
			ops = append(ops, op) // the only one of a user
		}
	}
	return func(yield func(mpi.Op, func(a, b T) T) bool) {
		for _, op := range ops {
			if f := r.ops[op]; f != nil && !yield(op, f) {
				return
			}
		}
	}
}

func (r *collTest[T]) reduce(op mpi.Op, f func(a, b T) T) error {
	sum, src := r.fold(f, r.c.Size()-1), r.block(r.rank(), r.count, 0)
	dst := r.atRoot(make([]T, r.count))
	err := mpi.Reduce(r.c, dst, src, op, r.root)
	errs := []error{want("Reduce", err, dst, r.atRoot(sum)), want("source of Reduce", err, src, r.block(r.rank(), r.count, 0))}
	x := slices.Clone(src)
	err = mpi.Reduce(r.c, r.atRoot(x), x, op, r.root)
	return errors.Join(append(errs, want("Reduce in place", err, r.atRoot(x), r.atRoot(sum)))...)
}

func (r *collTest[T]) allreduce(op mpi.Op, f func(a, b T) T) error {
	sum, src := r.fold(f, r.c.Size()-1), r.block(r.rank(), r.count, 0)
	dst := make([]T, r.count)
	err := mpi.Allreduce(r.c, dst, src, op)
	errs := []error{want("Allreduce", err, dst, sum), want("source of Allreduce", err, src, r.block(r.rank(), r.count, 0))}
	err = mpi.Allreduce(r.c, src, src, op)
	return errors.Join(append(errs, want("Allreduce in place", err, src, sum))...)
}

func (r *collTest[T]) scan(op mpi.Op, f func(a, b T) T) error {
	src, dst := r.block(r.rank(), r.count, 0), make([]T, r.count)
	err := mpi.Scan(r.c, dst, src, op)
	errs := []error{want("Scan", err, dst, r.fold(f, r.rank()))}
	x := slices.Clone(src)
	err = mpi.Scan(r.c, x, x, op)
	errs = append(errs, want("Scan in place", err, x, r.fold(f, r.rank())))
	before, x := make([]T, r.count), slices.Clone(src)
	left, leftInPlace := before, src // rank 0 keeps what it has
	if r.rank() > 0 {
		left = r.fold(f, r.rank()-1)
		leftInPlace = left
	}
	dst = make([]T, r.count)
	err = mpi.Exscan(r.c, dst, src, op)
	errs = append(errs, want("Exscan", err, dst, left))
	err = mpi.Exscan(r.c, x, x, op)
	return errors.Join(append(errs, want("Exscan in place", err, x, leftInPlace))...)
}

func (r *collTest[T]) reduceScatter(op mpi.Op, f func(a, b T) T) error {
	n := r.c.Size()
	counts, at := make([]int, n), 0
	for i, left := 0, r.count; i < n; i++ {
		counts[i] = min(left, (r.count+n-1)/n+i%2)
		if i == n-1 {
			counts[i] = left
		}
		if left -= counts[i]; i < r.rank() {
			at += counts[i]
		}
	}
	k := counts[r.rank()]
	sum, src := r.fold(f, n-1)[at:at+k], r.block(r.rank(), r.count, 0)
	dst := make([]T, k)
	err := mpi.ReduceScatter(r.c, dst, src, counts, op)
	errs := []error{want("ReduceScatter", err, dst, sum)}
	x := slices.Clone(src)
	err = mpi.ReduceScatter(r.c, x, x, counts, op)
	errs = append(errs, want("ReduceScatter in place", err, x[:k], sum))
	err = mpi.ReduceScatter(r.c, src[:k], src, counts, op)
	return errors.Join(append(errs, want("ReduceScatter at the start", err, src[:k], sum))...)
}

// collTests runs all collectives on one element type with some counts, those with a root with some roots.
func collTests[T mpi.Elem](c *mpi.Comm, e element[T], counts, roots []int) error {
	for _, count := range counts {
		for i, root := range roots {
			r := collTest[T]{e, c, count, root % c.Size()}
			if err := r.check(i == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// everyType runs all collectives on all element types. In worlds of another size than 3, only one of each kind is tried that the
// algorithms can tell apart, by the size of the elements and the properties of the operations, unless IBRUN_SOAK is set.
func everyType(p *mpi.Process) error {
	c, few := p.World(), []int{0, 1, 5}
	err := errors.Join(
		collTests(c, integers[int8](), few, []int{0}), collTests(c, integers[int64](), few, []int{3}),
		collTests(c, reals[float32](), few, []int{3}), collTests(c, complexes[complex128](), few, []int{6}),
		collTests(c, booleans[flag](), few, []int{1}), collTests(c, gcd(), few, []int{3}), collTests(c, affine(), few, []int{4}),
	)
	if c.Size() != 3 && !soaktest.On() {
		return err
	}
	return errors.Join(err,
		collTests(c, integers[int16](), few, []int{1}), collTests(c, integers[int32](), few, []int{2}),
		collTests(c, integers[int](), few, []int{4}), collTests(c, integers[uint8](), few, []int{5}),
		collTests(c, integers[uint16](), few, []int{6}), collTests(c, integers[uint32](), few, []int{7}),
		collTests(c, integers[uint64](), few, []int{0}), collTests(c, integers[uint](), few, []int{1}),
		collTests(c, integers[uintptr](), few, []int{2}), collTests(c, reals[float64](), few, []int{4}),
		collTests(c, complexes[complex64](), few, []int{5}), collTests(c, booleans[bool](), few, []int{7}),
		collTests(c, reals[celsius](), few, []int{0}), collTests(c, integers[id](), few, []int{2}),
	)
}

// everySize runs all collectives from all roots, and with long buffers, in an order of ranks that is not that of World. Unless
// IBRUN_SOAK is set, buffers are as long as that in worlds of a power of two ranks, and of 5, only.
func everySize(p *mpi.Process) error {
	c, err := p.World().Split(7, -p.World().Rank())
	if err != nil {
		return err
	}
	roots := make([]int, c.Size())
	for i := range roots {
		roots[i] = i
	}
	sum := element[int64]{of: reals[int64]().of, ops: map[mpi.Op]func(a, b int64) int64{mpi.Sum: reals[int64]().ops[mpi.Sum]}}
	errs := []error{collTests(c, sum, []int{3, 700}, roots), collTests(c, affine(), []int{1, 9, 2500}, []int{0, 2})}
	if n := c.Size(); n&(n-1) == 0 || n == 5 || soaktest.On() {
		errs = append(errs, collTests(c, sum, []int{20001}, []int{1}))
	}
	return errors.Join(append(errs, c.Free())...)
}

func TestCollectiveTypes(t *testing.T) { eachAlgorithm(t, []int{1, 2, 3, 5, 8}, everyType) }

// TestCollectiveSizes runs everySize with 2 and 8 ranks, for which some algorithms are chosen that others are not, with one, and
// with two odd numbers of them. With IBRUN_SOAK=1 it runs all numbers up to 8.
func TestCollectiveSizes(t *testing.T) {
	eachAlgorithm(t, soaktest.Choose([]int{1, 2, 3, 4, 5, 6, 7, 8}, []int{1, 2, 3, 5, 8}), everySize)
}
