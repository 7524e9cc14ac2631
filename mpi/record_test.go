package mpi_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
	"github.com/ibrun/ibrun/perf"
)

// TestRecorded: what ranks record is what they did, each call once, whatever it is made of.
func TestRecorded(t *testing.T) {
	const times = 40
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w, peer := p.World(), 1-p.World().Rank()
		small, large := make([]byte, 8), make([]byte, 1<<20)
		for range times {
			if w.Rank() == 0 {
				if err := errors.Join(mpi.Send(w, small, peer, 1), mpi.Ssend(w, large, peer, 2)); err != nil {
					return err
				}
			} else {
				_, err := mpi.Recv(w, small, peer, 1)
				_, err2 := mpi.Recv(w, large, peer, 2)
				if err := errors.Join(err, err2); err != nil {
					return err
				}
			}
			if _, err := mpi.Sendrecv(w, small, peer, 3, make([]byte, 8), peer, 3); err != nil {
				return err
			}
			if err := mpi.Allreduce(w, small, small, mpi.Sum); err != nil {
				return err
			}
		}
		r, err := mpi.Irecv(w, small, peer, 4)
		if err != nil {
			return err
		}
		p.Pcontrol(0)
		for range 5 { // in between, and not recorded
			if err := w.Barrier(); err != nil {
				return err
			}
		}
		p.Pcontrol(1)
		s, err := mpi.Isend(w, small, peer, 4)
		if err != nil {
			return err
		}
		if err := errors.Join(mpi.Waitall([]mpi.Request{r, s}, nil), w.Barrier(), p.Progress(3, 4)); err != nil {
			return err
		}
		return checkRecorded(p, times)
	})
}

func checkRecorded(p *mpi.Process, times uint64) error {
	s, err := p.Recorded()
	if err != nil {
		return err
	}
	type count struct{ calls, bytes uint64 }
	want := map[perf.Op]count{perf.Sendrecv: {times, 16 * times}, perf.Allreduce: {times, 8 * times}, perf.Irecv: {1, 8},
		perf.Isend: {1, 8}, perf.Waitall: {1, 0}, perf.Barrier: {1, 0}}
	if s.Rank == 0 {
		want[perf.Send], want[perf.Ssend] = count{times, 8 * times}, count{times, times << 20}
	} else {
		want[perf.Recv] = count{2 * times, (8 + 1<<20) * times}
	}
	for _, o := range perf.MergeClasses(s.Ops) {
		if got := (count{o.Calls, o.Bytes}); got != want[o.Op] {
			return fmt.Errorf("rank %d, %v: %+v, want %+v", s.Rank, o.Op, got, want[o.Op])
		}
		delete(want, o.Op)
	}
	if len(want) != 0 || s.Done != 3 || s.Total != 4 || s.State != perf.Running || s.Size != 2 {
		return fmt.Errorf("rank %d: not recorded: %v; %+v", s.Rank, want, s)
	}
	if len(s.Peers) != 1 || s.Peers[0].Rank != 1-s.Rank || s.Peers[0].Transport == perf.OtherTransport {
		return fmt.Errorf("rank %d: peers %+v", s.Rank, s.Peers)
	}
	// Beside the messages of these calls there are those of the collectives.
	small, large := s.Peers[0].Out, s.Peers[0].In
	if s.Rank == 0 {
		small, large = large, small
	}
	if large.Bytes < times<<20 || small.Bytes >= times<<20 || small.Messages < times || large.Messages < 3*times {
		return fmt.Errorf("rank %d: to its peer %+v, from it %+v", s.Rank, s.Peers[0].Out, s.Peers[0].In)
	}
	return nil
}

// TestRecordedConstructors: what makes and ends communicators is recorded as one call, and not as what it is made of.
func TestRecordedConstructors(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w := p.World()
		ring := mpi.Neighbors{Sources: []int{1 - w.Rank()}, Destinations: []int{1 - w.Rank()}}
		var grid *mpi.Comm
		makers := map[perf.Op]func() (*mpi.Comm, error){
			perf.Dup:           w.Dup,
			perf.DupWithInfo:   func() (*mpi.Comm, error) { return w.DupWithInfo(nil) },
			perf.Split:         func() (*mpi.Comm, error) { return w.Split(0, 0) },
			perf.SplitType:     func() (*mpi.Comm, error) { return w.SplitType(mpi.TypeShared, 0, nil) },
			perf.Create:        func() (*mpi.Comm, error) { return w.Create(w.Group()) },
			perf.CreateGroup:   func() (*mpi.Comm, error) { return w.CreateGroup(w.Group(), 0) },
			perf.CommFromGroup: func() (*mpi.Comm, error) { return mpi.CommFromGroup(w.Group(), "tag", nil) },
			perf.CartCreate:    func() (*mpi.Comm, error) { return w.CartCreate([]int{2}, nil, mpi.Reorder) },
			perf.CartSub:       func() (*mpi.Comm, error) { return grid.CartSub([]bool{true}) },
			perf.GraphCreate:   func() (*mpi.Comm, error) { return w.GraphCreate([][]int{{1}, {0}}, mpi.Reorder) },
			perf.DistGraphCreate: func() (*mpi.Comm, error) {
				return w.DistGraphCreate([]mpi.Edge{{From: 0, To: 1}}, false, nil, mpi.KeepRanks)
			},
			perf.DistGraphCreateAdjacent: func() (*mpi.Comm, error) {
				return w.DistGraphCreateAdjacent(ring, nil, mpi.KeepRanks)
			},
			perf.Idup: func() (*mpi.Comm, error) {
				d, r, err := w.Idup()
				return d, errors.Join(err, mpi.Waitall([]mpi.Request{r}, nil))
			},
		}
		var err error
		if grid, err = makers[perf.CartCreate](); err != nil {
			return err
		}
		want := map[perf.Op]uint64{perf.Waitall: 1, perf.SetInfo: 1, perf.Free: uint64(len(makers)) - 1, perf.Disconnect: 1,
			perf.CartCreate: 1}
		var comms []*mpi.Comm
		for _, op := range slices.Sorted(maps.Keys(makers)) {
			c, err := makers[op]()
			if err != nil {
				return fmt.Errorf("%v: %w", op, err)
			}
			comms, want[op] = append(comms, c), want[op]+1
		}
		err = errors.Join(w.SetInfo(nil), comms[0].Disconnect())
		for _, c := range comms[1:] {
			err = errors.Join(err, c.Free())
		}
		s, errRead := p.Recorded()
		if err = errors.Join(err, errRead); err != nil {
			return err
		}
		for _, o := range perf.MergeClasses(s.Ops) {
			if o.Calls != want[o.Op] || o.Time <= 0 {
				return fmt.Errorf("%v: %d calls in %v, want %d", o.Op, o.Calls, o.Time, want[o.Op])
			}
			delete(want, o.Op)
		}
		if len(want) != 0 {
			return fmt.Errorf("not recorded: %v", want)
		}
		return nil
	})
}

// TestRecordedAlltoallw: Alltoallw of views is recorded, and called in errors, by its own name in all forms, and Alltoallv of
// structs by that, although it is made in the same way.
func TestRecordedAlltoallw(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w := p.World()
		other := []int{1 - w.Rank()}
		c, err := w.DistGraphCreateAdjacent(mpi.Neighbors{Sources: other, Destinations: other}, nil, mpi.KeepRanks)
		if err != nil {
			return err
		}
		x, y, one := make([]particle, 2), make([]particle, 2), []int{1, 1}
		dst, src := []mpi.View{mpi.ViewOf(x[:1]), mpi.ViewOf(x[1:])}, []mpi.View{mpi.ViewOf(y[:1]), mpi.ViewOf(y[1:])}
		waited := func(r mpi.Request, err error) error {
			if err == nil {
				_, err = r.Wait()
			}
			return err
		}
		for _, call := range []struct {
			op   perf.Op
			good func() error
			bad  func() error
			init func() error // persistent, and wrong
		}{
			{perf.Alltoallw, func() error { return c.Alltoallw(dst, src) }, func() error { return c.Alltoallw(dst[:1], src) },
				func() error { return second(c.AlltoallwInit(dst[:1], src)) }},
			{perf.Ialltoallw, func() error { return waited(c.Ialltoallw(dst, src)) },
				func() error { return second(c.Ialltoallw(dst[:1], src)) }, nil},
			{perf.NeighborAlltoallw, func() error { return c.NeighborAlltoallw(dst[:1], src[:1]) },
				func() error { return c.NeighborAlltoallw(dst, src) },
				func() error { return second(c.NeighborAlltoallwInit(dst, src)) }},
			{perf.IneighborAlltoallw, func() error { return waited(c.IneighborAlltoallw(dst[:1], src[:1])) },
				func() error { return second(c.IneighborAlltoallw(dst, src)) }, nil},
			{perf.Alltoallv, func() error { return mpi.Alltoallv(c, x, one, nil, y, one, nil) },
				func() error { return mpi.Alltoallv(c, x, one[:1], nil, y, one, nil) },
				func() error { return second(mpi.AlltoallvInit(c, x, one[:1], nil, y, one, nil)) }},
			{perf.Ialltoallv, func() error { return waited(mpi.Ialltoallv(c, x, one, nil, y, one, nil)) },
				func() error { return second(mpi.Ialltoallv(c, x, one[:1], nil, y, one, nil)) }, nil},
			{perf.NeighborAlltoallv, func() error { return mpi.NeighborAlltoallv(c, x, one[:1], nil, y, one[:1], nil) },
				func() error { return mpi.NeighborAlltoallv(c, x, one, nil, y, one, nil) },
				func() error { return second(mpi.NeighborAlltoallvInit(c, x, one, nil, y, one, nil)) }},
			{perf.IneighborAlltoallv, func() error { return waited(mpi.IneighborAlltoallv(c, x, one[:1], nil, y, one[:1], nil)) },
				func() error { return second(mpi.IneighborAlltoallv(c, x, one, nil, y, one, nil)) }, nil},
		} {
			if err := call.good(); err != nil {
				return fmt.Errorf("%v: %w", call.op, err)
			}
			s, err := p.Recorded()
			if err != nil {
				return err
			}
			recorded := map[perf.Op]uint64{}
			for _, o := range perf.MergeClasses(s.Ops) {
				recorded[o.Op] = o.Calls
			}
			errs := []error{check(recorded[call.op] == 1, "after %v: %v", call.op, recorded), namedIn(call.bad(), call.op.String())}
			if call.init != nil {
				errs = append(errs, namedIn(call.init(), call.op.String()+"Init"))
			}
			if err := errors.Join(errs...); err != nil {
				return err
			}
		}
		return nil
	})
}

// namedIn reports an error that is not one of the call op.
func namedIn(err error, op string) error {
	e, ok := errors.AsType[*mpi.Error](err)
	if !ok || e.Op != op {
		return fmt.Errorf("got %w, want an error of %s", err, op)
	}
	return nil
}

// TestRecordedOff: IBRUN_PERF=off records nothing, and calls go on as they do with it.
func TestRecordedOff(t *testing.T) {
	t.Setenv("IBRUN_PERF", "off")
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		p.Pcontrol(1)
		if err := errors.Join(p.World().Barrier(), p.Progress(1, 1)); err != nil {
			return err
		}
		if s, err := p.Recorded(); s != nil || err != nil {
			return fmt.Errorf("recorded %+v, %v", s, err)
		}
		return nil
	})
}
