package mpi_test

import (
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// dense is a struct without padding.
type dense struct {
	X, Y float64
	ID   int64
}

// elementsOfRank returns n elements that depend on the rank.
func elementsOfRank[T any](rank, n int, make func(i int) T) []T {
	var x []T
	for i := range n {
		x = append(x, make(100*rank+i))
	}
	return x
}

// everyCall checks all calls that take slices of elements, with three ranks.
func everyCall[T comparable](c *mpi.Comm, of func(i int) T) error {
	me := c.Rank()
	next, last := (me+1)%3, (me+2)%3
	two := elementsOfRank(me, 2, of)
	got := make([]T, 3)
	is := func(name string, got []T, want ...int) error {
		for i, w := range want {
			if got[i] != of(w) {
				return fmt.Errorf("%s: element %d of %T is %v, want %v", name, i, got, got[i], of(w))
			}
		}
		return nil
	}
	r, err1 := mpi.Irecv(c, got, last, 1)
	err2 := mpi.Send(c, two, next, 1)
	st, err3 := r.Wait()
	err := errors.Join(err1, err2, err3, is("Send", got, 100*last, 100*last+1),
		check(mpi.Count[T](st) == 2, "%d elements of %T", mpi.Count[T](st), got))
	_, err1 = mpi.Sendrecv(c, two, next, 2, got, last, 2)
	s, err2 := mpi.SendInit(c, two, next, 3)
	r, err3 = mpi.RecvInit(c, got, last, 3)
	if err := errors.Join(err, err1, err2, err3, mpi.Startall([]mpi.Request{r, s}), mpi.Waitall([]mpi.Request{r, s}, nil),
		r.Free(), s.Free(), is("SendInit", got, 100*last)); err != nil {
		return err
	}
	s, err1 = mpi.Isend(c, two, next, 4)
	m, _, err2 := c.Mprobe(last, 4)
	_, err3 = mpi.Mrecv(m, got)
	_, err4 := s.Wait()
	all, six := make([]T, 6), elementsOfRank(me, 6, of)
	err = errors.Join(err1, err2, err3, err4, is("Mrecv", got, 100*last, 100*last+1), mpi.Allgather(c, all, two),
		is("Allgather", all, 0, 1, 100, 101, 200, 201), mpi.Alltoall(c, all, six),
		is("Alltoall", all, 2*me, 2*me+1, 100+2*me, 100+2*me+1, 200+2*me, 200+2*me+1),
		mpi.Scatter(c, got[:2], six, 1), is("Scatter", got, 100+2*me, 100+2*me+1), mpi.Bcast(c, two, 1), is("Bcast", two, 100, 101))
	two = elementsOfRank(me, 2, of)
	err = errors.Join(err, mpi.Gather(c, all, two, 2))
	if me == 2 {
		err = errors.Join(err, is("Gather", all, 0, 1, 100, 101, 200, 201))
	}
	return errors.Join(err, everyCount(c, of, is))
}

// everyCount checks the calls with counts, and calls in place.
func everyCount[T comparable](c *mpi.Comm, of func(i int) T, is func(string, []T, ...int) error) error {
	me := c.Rank()
	counts, displs := []int{1, 2, 3}, []int{5, 3, 0}
	own, all := elementsOfRank(me, me+1, of), make([]T, 6)
	err := errors.Join(mpi.Allgatherv(c, all, counts, displs, own), is("Allgatherv", all, 200, 201, 202, 100, 101, 0))
	clear(all)
	err = errors.Join(err, mpi.Gatherv(c, all, counts, nil, own, 1))
	if me == 1 {
		err = errors.Join(err, is("Gatherv", all, 0, 100, 101, 200, 201, 202))
	}
	part := make([]T, me+1)
	err = errors.Join(err, mpi.Scatterv(c, part, elementsOfRank(1, 6, of), counts, displs, 1), is("Scatterv", part, 100+displs[me]))
	// Rank r sends i+1 elements to rank i.
	rcounts := []int{me + 1, me + 1, me + 1}
	all = make([]T, 3*(me+1))
	err = errors.Join(err, mpi.Alltoallv(c, all, rcounts, nil, elementsOfRank(me, 6, of), counts, displs),
		is("Alltoallv", all, displs[me]), is("Alltoallv", all[me+1:], 100+displs[me]))
	all = make([]T, 6)
	copy(all[2*me:], elementsOfRank(me, 2, of))
	err = errors.Join(err, mpi.Allgather(c, all, all), is("Allgather in place", all, 0, 1, 100, 101, 200, 201))
	all = elementsOfRank(me, 3, of)
	err = errors.Join(err, mpi.Alltoall(c, all, all), is("Alltoall in place", all, me, 100+me, 200+me))
	clear(all)
	all[me] = of(me)
	return errors.Join(err, mpi.Allgatherv(c, all, []int{1, 1, 1}, nil, all), is("Allgatherv in place", all, 0, 1, 2))
}

// TestElements: numbers, arrays, and structs with and without padding are elements of every call.
func TestElements(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		c := p.World()
		return errors.Join(everyCall(c, func(i int) int32 { return int32(i) }),
			everyCall(c, func(i int) dense { return dense{float64(i), -1, int64(i)} }),
			everyCall(c, func(i int) point { return point{int8(i), float64(i), 7} }),
			everyCall(c, func(i int) [3]int16 { return [3]int16{int16(i), 0, int16(-i)} }))
	})
}

// TestAlltoallvOfNothing: an Alltoallv of structs in place works at a rank that has no elements, in all
// forms. Counts that do not fit the ranks are an error there as well.
func TestAlltoallvOfNothing(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		c := p.World()
		x, counts := make([]dense, min(c.Rank(), 1)), []int{0, 0, 0}
		if c.Rank() > 0 {
			x[0].ID, counts[3-c.Rank()] = int64(c.Rank()), 1
		}
		// Each call exchanges the elements of ranks 1 and 2.
		exchanged := func(with int) error {
			return check(c.Rank() == 0 || x[0].ID == int64(with), "got %v", x)
		}
		err := mpi.Alltoallv(c, x, counts, nil, x, nil, nil)
		if err = errors.Join(err, exchanged(3-c.Rank())); err != nil {
			return err
		}
		r, err := mpi.Ialltoallv(c, x, counts, nil, x, nil, nil)
		if err == nil {
			_, err = r.Wait()
		}
		if err = errors.Join(err, exchanged(c.Rank())); err != nil {
			return err
		}
		if r, err = mpi.AlltoallvInit(c, x, counts, nil, x, nil, nil); err == nil {
			err = r.Start()
		}
		if err == nil {
			_, err = r.Wait()
		}
		if err = errors.Join(err, r.Free(), exchanged(3-c.Rank())); err != nil || c.Rank() > 0 {
			return err
		}
		return wantClass("no counts of src", mpi.Alltoallv(p.Self(), x, []int{0}, nil, x, []int{}, nil), mpi.ErrCount)
	})
}

// TestWrongElements: types with pointers are errors that name the field, and counts that exceed a slice are errors.
func TestWrongElements(t *testing.T) {
	type named struct {
		ID   int
		Name string
	}
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		c := p.World()
		x, y := make([]named, 1), make([]point, 2)
		for i, err := range []error{mpi.Send(c, x, 0, 0), second(mpi.Isend(c, x, 0, 0)), second(mpi.SendInit(c, x, 0, 0)),
			second(mpi.Recv(c, x, 0, 0)), second(mpi.Irecv(c, x, 0, 0)), second(mpi.RecvInit(c, x, 0, 0)),
			second(mpi.Sendrecv(c, x, 0, 0, y, 0, 0)), mpi.Bcast(c, x, 0), mpi.Gather(c, x, x, 0), mpi.Scatter(c, x, x, 0),
			mpi.Allgather(c, x, x), mpi.Alltoall(c, x, x), mpi.Gatherv(c, x, []int{1}, nil, x, 0)} {
			if err := ofClass(err, mpi.ErrType); err != nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
			if !strings.Contains(err.Error(), "named.Name") {
				return fmt.Errorf("call %d: %q does not name the field", i, err)
			}
		}
		return errors.Join(ofClass(mpi.Gatherv(c, y, []int{3}, nil, y, 0), mpi.ErrCount),
			ofClass(mpi.Scatterv(c, y, y, []int{1}, []int{-1}, 0), mpi.ErrCount),
			ofClass(mpi.Allgatherv(c, y, []int{1}, []int{0, 1}, y), mpi.ErrCount),
			ofClass(mpi.Alltoallv(c, y, []int{1, 1}, nil, y, nil, nil), mpi.ErrCount),
			check(mpi.Count[named](mpi.Status{}) == mpi.Undefined, "a count of values that are not elements"))
	})
}

// Particles are gathered as they are.
func ExampleGather_structs() {
	type Particle struct {
		X, Y float64
		Kind int8
	}
	err := mpitest.Ranks(2, func(p *mpi.Process) error {
		world := p.World()
		mine := []Particle{{X: float64(world.Rank()), Kind: 1}}
		all := make([]Particle, 2)
		err := mpi.Gather(world, all, mine, 0)
		if world.Rank() == 0 {
			fmt.Println(all)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: [{0 0 1} {1 0 1}]
}

// Elements without data are counted as none.
func TestCountWithoutData(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		st, err := mpi.Sendrecv(p.World(), []struct{}{{}}, 0, 0, []struct{}{{}}, 0, 0)
		n, err2 := st.Count(typeOf[struct{}]())
		return errors.Join(err, err2, check(n == 0 && mpi.Count[struct{}](st) == 0, "%d and %d", n, mpi.Count[struct{}](st)))
	})
}

// A message of elements without data is one of none.
func TestMessagesWithoutData(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		r, err := mpi.Isend(p.World(), []struct{}{{}}, 0, 0)
		if err != nil {
			return err
		}
		for m, err := range mpi.Messages[struct{}](t.Context(), p.World(), 0, 0) {
			if err := errors.Join(err, check(len(m.Data) == 0, "%d elements", len(m.Data))); err != nil {
				return err
			}
			break
		}
		_, err = r.Wait()
		return err
	})
}
