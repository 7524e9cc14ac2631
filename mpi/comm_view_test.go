package mpi_test

import (
	"errors"
	"fmt"
	"log"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestViewMessages: every call that sends a view delivers its elements to every call that receives into one, or into a slice.
func TestViewMessages(t *testing.T) {
	for _, rows := range []int{3, 40, 40000} {
		mpitest.Run(t, 2, func(p *mpi.Process) error {
			c := p.World()
			if err := p.BufferAttach(make([]byte, 8*rows+mpi.BsendOverhead)); err != nil {
				return err
			}
			if c.Rank() == 0 {
				return sendColumns(c, rows)
			}
			return recvColumns(c, rows)
		})
	}
}

// columnSends are the calls that send a view, but for persistent ones.
func columnSends(c *mpi.Comm) []func(v mpi.View, tag int) error {
	wait := func(r mpi.Request, err error) error { return errors.Join(err, second(r.Wait())) }
	start := func(r mpi.Request, err error) error {
		return errors.Join(err, r.Start(), second(r.Wait()), r.Free())
	}
	return []func(v mpi.View, tag int) error{
		func(v mpi.View, tag int) error { return c.Send(v, 1, tag) },
		func(v mpi.View, tag int) error { return c.Ssend(v, 1, tag) },
		func(v mpi.View, tag int) error { return c.Bsend(v, 1, tag) },
		func(v mpi.View, tag int) error { return c.Rsend(v, 1, tag) },
		func(v mpi.View, tag int) error { return wait(c.Isend(v, 1, tag)) },
		func(v mpi.View, tag int) error { return wait(c.Issend(v, 1, tag)) },
		func(v mpi.View, tag int) error { return wait(c.Irsend(v, 1, tag)) },
		func(v mpi.View, tag int) error { return start(c.SendInit(v, 1, tag)) },
		func(v mpi.View, tag int) error { return start(c.SsendInit(v, 1, tag)) },
		func(v mpi.View, tag int) error { return start(c.RsendInit(v, 1, tag)) },
	}
}

func sendColumns(c *mpi.Comm, rows int) error {
	x := make([]int, rows*3)
	for i := range x {
		x[i] = i
	}
	a := mpi.ArrayOf(x, rows, 3)
	for i, send := range columnSends(c) {
		if err := send(a.Col(1), i); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		// The receiver answers in its own column.
		if _, err := c.Sendrecv(a.Col(0), 1, 1000, a.Col(2), 1, 1000); err != nil {
			return err
		}
	}
	got, err := elementsOf[int](a.Col(2))
	return errors.Join(err, check(got[rows-1] == 3*(rows-1)+1, "the column came back as %v", got[rows-1]))
}

func recvColumns(c *mpi.Comm, rows int) error {
	x := make([]int, rows*2)
	a := mpi.ArrayOf(x, rows, 2)
	recvs := []func(tag int) (mpi.Status, error){
		func(tag int) (mpi.Status, error) { return c.Recv(a.Col(1), 0, tag) },
		func(tag int) (mpi.Status, error) {
			r, err := c.Irecv(a.Col(1), 0, tag)
			st, errWait := r.Wait()
			return st, errors.Join(err, errWait)
		},
		func(tag int) (mpi.Status, error) {
			r, err := c.RecvInit(a.Col(1), 0, tag)
			if err := errors.Join(err, r.Start()); err != nil {
				return mpi.Status{}, err
			}
			st, err := r.Wait()
			return st, errors.Join(err, r.Free())
		},
		func(tag int) (mpi.Status, error) {
			m, _, err := c.Mprobe(0, tag)
			if err != nil {
				return mpi.Status{}, err
			}
			return m.Mrecv(a.Col(1))
		},
		func(tag int) (mpi.Status, error) {
			m, _, err := c.Mprobe(0, tag)
			if err != nil {
				return mpi.Status{}, err
			}
			r, err := m.Imrecv(a.Col(1))
			st, errWait := r.Wait()
			return st, errors.Join(err, errWait)
		},
		func(tag int) (mpi.Status, error) { // a slice
			y := make([]int, rows)
			st, err := mpi.Recv(c, y, 0, tag)
			for i, v := range y {
				a.Set(v, i, 1)
			}
			return st, err
		},
	}
	for tag := range columnSends(c) {
		for i := range x {
			x[i] = -1
		}
		st, err := recvs[tag%len(recvs)](tag)
		if err != nil {
			return fmt.Errorf("receive %d: %w", tag%len(recvs), err)
		}
		for i := range rows {
			if a.At(i, 0) != -1 || a.At(i, 1) != 3*i+1 || mpi.Count[int](st) != rows {
				return fmt.Errorf("receive %d: row %d is %d %d; %d elements", tag%len(recvs), i, a.At(i, 0), a.At(i, 1), st.Bytes()/8)
			}
			a.Set(a.At(i, 1), i, 0)
		}
		if _, err := c.Sendrecv(a.Col(0), 0, 1000, a.Col(1), 0, 1000); err != nil {
			return err
		}
		if got := a.At(rows-1, 1); got != 3*(rows-1) {
			return fmt.Errorf("the answer's last element is %d", got)
		}
	}
	return nil
}

// TestViewReplace: SendrecvReplace exchanges columns, and Ibsend and BsendInit send them.
func TestViewReplace(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		c := p.World()
		peer := 1 - c.Rank()
		x := []int{c.Rank(), 7, c.Rank() + 10, 8}
		col := mpi.ArrayOf(x, 2, 2).Col(0)
		_, err := c.SendrecvReplace(col, peer, 0, peer, 0)
		if err := errors.Join(err, check(slices.Equal(x, []int{peer, 7, peer + 10, 8}), "replaced by %v", x),
			p.BufferAttach(make([]byte, 1000))); err != nil {
			return err
		}
		r, err1 := c.Ibsend(col, peer, 1)
		s, err2 := c.BsendInit(col, peer, 2)
		if err := errors.Join(err1, err2, s.Start(), second(r.Wait()), second(s.Wait()), s.Free()); err != nil {
			return err
		}
		y, z := make([]int, 2), make([]int, 2)
		err1 = second(mpi.Recv(c, y, peer, 1))
		err2 = second(mpi.Recv(c, z, peer, 2))
		want := []int{c.Rank(), c.Rank() + 10}
		return errors.Join(err1, err2, check(slices.Equal(y, want) && slices.Equal(z, want), "%v and %v, want %v", y, z, want))
	})
}

// viewCalls are the collectives of views in one form. A Comm has the blocking one.
type viewCalls interface {
	Bcast(v mpi.View, root int) error
	Gather(dst, src mpi.View, root int) error
	Gatherv(dst []mpi.View, src mpi.View, root int) error
	Scatter(dst, src mpi.View, root int) error
	Scatterv(dst mpi.View, src []mpi.View, root int) error
	Allgather(dst, src mpi.View) error
	Allgatherv(dst []mpi.View, src mpi.View) error
	Alltoall(dst, src mpi.View) error
	Alltoallw(dst, src []mpi.View) error
}

// started are the immediate or persistent form. They return when the request has completed.
type started struct {
	c          *mpi.Comm
	persistent bool
}

// wait returns when a request has completed. A persistent one is started twice.
func (s started) wait(r mpi.Request, err error) error {
	if !s.persistent || err != nil {
		_, err1 := r.Wait()
		return errors.Join(err, err1)
	}
	err = r.Start()
	_, err1 := r.Wait()
	err2 := r.Start()
	_, err3 := r.Wait()
	return errors.Join(err, err1, err2, err3, r.Free())
}

func (s started) Bcast(v mpi.View, root int) error {
	return s.wait(pick(s.persistent, s.c.Ibcast, s.c.BcastInit)(v, root))
}

func (s started) Gather(dst, src mpi.View, root int) error {
	return s.wait(pick(s.persistent, s.c.Igather, s.c.GatherInit)(dst, src, root))
}

func (s started) Gatherv(dst []mpi.View, src mpi.View, root int) error {
	return s.wait(pick(s.persistent, s.c.Igatherv, s.c.GathervInit)(dst, src, root))
}

func (s started) Scatter(dst, src mpi.View, root int) error {
	return s.wait(pick(s.persistent, s.c.Iscatter, s.c.ScatterInit)(dst, src, root))
}

func (s started) Scatterv(dst mpi.View, src []mpi.View, root int) error {
	return s.wait(pick(s.persistent, s.c.Iscatterv, s.c.ScattervInit)(dst, src, root))
}

func (s started) Allgather(dst, src mpi.View) error {
	return s.wait(pick(s.persistent, s.c.Iallgather, s.c.AllgatherInit)(dst, src))
}

func (s started) Allgatherv(dst []mpi.View, src mpi.View) error {
	return s.wait(pick(s.persistent, s.c.Iallgatherv, s.c.AllgathervInit)(dst, src))
}

func (s started) Alltoall(dst, src mpi.View) error {
	return s.wait(pick(s.persistent, s.c.Ialltoall, s.c.AlltoallInit)(dst, src))
}

func (s started) Alltoallw(dst, src []mpi.View) error {
	return s.wait(pick(s.persistent, s.c.Ialltoallw, s.c.AlltoallwInit)(dst, src))
}

// TestViewCollectives: collectives of columns do what those of slices do, in all forms.
func TestViewCollectives(t *testing.T) {
	for name, form := range map[string]func(c *mpi.Comm) viewCalls{
		"blocking":   func(c *mpi.Comm) viewCalls { return c },
		"immediate":  func(c *mpi.Comm) viewCalls { return started{c, false} },
		"persistent": func(c *mpi.Comm) viewCalls { return started{c, true} },
	} {
		t.Run(name, func(t *testing.T) { testViewCollectives(t, form) })
	}
}

func testViewCollectives(t *testing.T, form func(c *mpi.Comm) viewCalls) {
	checkedAndNot(t, 3, func(p *mpi.Process) error {
		me, c := p.World().Rank(), form(p.World())
		in, out := make([]int, 6*2), make([]int, 6*2)
		for i := range in {
			in[i], out[i] = 100*me+i, -1
		}
		col, at := mpi.ArrayOf(in, 6, 2).Col(1), mpi.ArrayOf(out, 6, 2).Col(0)
		has := func(want ...int) error {
			got, err := elementsOf[int](at)
			return errors.Join(err, check(slices.Equal(got, want), "%v, want %v", got, want), check(out[1] == -1, "stored %v", out))
		}
		two := mpi.ArrayOf(in, 6, 2).Sub([]int{0, 1}, []int{2, 1})
		part := mpi.ArrayOf(out, 6, 2).Sub([]int{0, 0}, []int{2, 1})
		var none, root mpi.View
		if me == 1 {
			root = at
		}
		err := c.Allgather(at, two)
		err = errors.Join(err, has(1, 3, 101, 103, 201, 203), c.Alltoall(at, col),
			has(4*me+1, 4*me+3, 100+4*me+1, 100+4*me+3, 200+4*me+1, 200+4*me+3), c.Gather(root, two, 1))
		if me == 1 {
			err = errors.Join(err, has(1, 3, 101, 103, 201, 203))
			root = col
		}
		err = errors.Join(err, c.Scatter(part, root, 1), check(out[0] == 100+4*me+1 && out[2] == 100+4*me+3, "scattered %v", out))
		if me == 1 {
			at = col
		}
		err = errors.Join(err, c.Bcast(at, 1))
		if me != 1 {
			err = errors.Join(err, has(101, 103, 105, 107, 109, 111))
		}
		return errors.Join(err, ofClass(c.Bcast(mpi.ArrayOf(in, 1).All(), 0), mpi.ErrCount), c.Bcast(none, 0), viewLists(c, me))
	})
}

// viewLists checks the collectives that have a view for each rank. Rank r has r+1 elements for others.
func viewLists(c viewCalls, me int) error {
	in, out := make([]int, 24), make([]int, 24)
	for i := range in {
		in[i] = 100*me + i
	}
	from, to := mpi.ArrayOf(in, 4, 6), mpi.ArrayOf(out, 4, 6)
	var own, all, same []mpi.View
	for r := range 3 {
		own = append(own, from.Sub([]int{0, r}, []int{r + 1, 1})) // r+1 elements of column r for rank r
		all = append(all, to.Sub([]int{0, r}, []int{me + 1, 1}))
		same = append(same, to.Sub([]int{0, r}, []int{r + 1, 1}))
	}
	mine := own[me]
	has := func(n func(r int) int, value func(r, i int) int) error {
		for r := range 3 {
			for i := range n(r) {
				if got := to.At(i, r); got != value(r, i) {
					return fmt.Errorf("rank %d has %d of rank %d in row %d, want %d", me, got, r, i, value(r, i))
				}
			}
		}
		return nil
	}
	err := c.Alltoallw(all, own)
	err = errors.Join(err, has(func(int) int { return me + 1 }, func(r, i int) int { return 100*r + 6*i + me }),
		c.Allgatherv(same, mine), has(func(r int) int { return r + 1 }, func(r, i int) int { return 100*r + 6*i + r }))
	clear(out)
	if me != 2 {
		same, own = nil, nil
	}
	err = errors.Join(err, c.Gatherv(same, mine, 2))
	if me == 2 {
		err = errors.Join(err, has(func(r int) int { return r + 1 }, func(r, i int) int { return 100*r + 6*i + r }))
	}
	dst := to.Sub([]int{0, 5}, []int{me + 1, 1})
	err = errors.Join(err, c.Scatterv(dst, own, 2))
	for i := range me + 1 {
		err = errors.Join(err, check(to.At(i, 5) == 200+6*i+me, "scattered %d", to.At(i, 5)))
	}
	return err
}

// TestViewErrors: calls with a wrong view fail before anything is sent.
func TestViewErrors(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		c := p.World()
		x := make([]int, 4)
		bad, good := mpi.ArrayOf(x, 2, 2).Col(2), mpi.ViewOf(x[:2])
		twice, err := mpi.TypeIndexed([]int{2, 2}, []int{0, 1}, typeOf[int]())
		if err := errors.Join(err, twice.Commit()); err != nil {
			return err
		}
		overlaps := mpi.ViewAs(x, 0, twice, 1)
		lists := [][]mpi.View{{bad}, {good}}
		for i, err := range []error{c.Send(bad, 0, 0), second(c.Isend(bad, 0, 0)), second(c.SendInit(bad, 0, 0)),
			second(c.Recv(bad, 0, 0)), second(c.Irecv(bad, 0, 0)), second(c.RecvInit(bad, 0, 0)),
			second(c.Sendrecv(bad, 0, 0, good, 0, 0)), second(c.Sendrecv(good, 0, 0, bad, 0, 0)),
			second(c.SendrecvReplace(bad, 0, 0, 0, 0)), c.Bcast(bad, 0), c.Gather(good, bad, 0), c.Scatter(good, bad, 0),
			c.Allgather(bad, good), c.Allgather(good, bad), c.Alltoall(bad, good), c.Gatherv(lists[0], good, 0),
			c.Scatterv(good, lists[0], 0), c.Scatterv(bad, lists[1], 0), c.Allgatherv(lists[1], bad), c.Alltoallw(lists[0], lists[1]),
			c.Alltoallw(lists[1], lists[0])} {
			if err := ofClass(err, mpi.ErrArg); err != nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
		}
		return errors.Join(ofClass(second(c.Recv(overlaps, 0, 0)), mpi.ErrType), ofClass(second(c.Irecv(overlaps, 0, 0)), mpi.ErrType),
			ofClass(c.Allgather(overlaps, good), mpi.ErrType), ofClass(c.Send(good, 9, 0), mpi.ErrRank),
			ofClass((*mpi.Comm)(nil).Send(good, 0, 0), mpi.ErrComm), ofClass(second((*mpi.Comm)(nil).Recv(good, 0, 0)), mpi.ErrComm),
			ofClass(c.Alltoallw(nil, lists[1]), mpi.ErrCount))
	})
}

// A halo exchange in two dimensions: each rank of a ring has rows with a ghost row at both ends, and ghost columns that are its
// own. The same two lines serve any dimension.
func ExampleComm_Sendrecv() {
	err := mpitest.Ranks(3, func(p *mpi.Process) error {
		c := p.World()
		const ny, nx = 2, 2
		x := make([]float64, (ny+2)*(nx+2))
		for i := range x {
			x[i] = float64(c.Rank())
		}
		g := mpi.ArrayOf(x, ny+2, nx+2)
		up, down := (c.Rank()+2)%3, (c.Rank()+1)%3

		_, err1 := c.Sendrecv(g.Row(1), up, 0, g.Row(ny+1), down, 0)
		_, err2 := c.Sendrecv(g.Row(ny), down, 0, g.Row(0), up, 0)
		_, err3 := c.Sendrecv(g.Col(1), c.Rank(), 0, g.Col(nx+1), c.Rank(), 0)

		if c.Rank() == 1 {
			fmt.Println(g.At(0, 1), g.At(1, 1), g.At(2, 1), g.At(3, 1))
		}
		return errors.Join(err1, err2, err3)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 0 1 1 2
}
