package mpi_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// memoryCase has what a rank needs for the calls that are checked. There are two ranks.
type memoryCase struct {
	*allocCase
	p     *mpi.Process
	self  *mpi.Comm // of this rank alone
	ring  *mpi.Comm // a periodic grid of both ranks: each has the other one as two neighbors
	inter *mpi.Comm // between the two ranks
	// persistent are collectives, and parts a partitioned send and receive.
	persistent, parts []mpi.Request
	big               []int32 // twice as long as what is sent
}

func newMemoryCase(p *mpi.Process) (*memoryCase, error) {
	w := p.World()
	h, err := newAllocCase(w, 2)
	x := &memoryCase{allocCase: h, p: p, big: make([]int32, 4)}
	errs := []error{err, p.BufferAttach(make([]byte, 1<<16))}
	comm := func(c *mpi.Comm, err error) *mpi.Comm {
		errs = append(errs, err)
		return c
	}
	x.self = comm(w.Split(w.Rank(), 0))
	x.ring = comm(w.CartCreate([]int{2}, []bool{true}, mpi.KeepRanks))
	if errors.Join(errs...) == nil {
		x.inter = comm(x.self.CreateIntercomm(0, w, h.other, 9))
	}
	add := func(to *[]mpi.Request, r mpi.Request, err error) { *to, errs = append(*to, r), append(errs, err) }
	collective := func(r mpi.Request, err error) { add(&x.persistent, r, err) }
	collective(mpi.AllreduceInit(w, make([]int32, 2), h.s, mpi.Sum))
	collective(mpi.BcastInit(w, make([]int32, 2), 0))
	collective(w.BarrierInit())
	part := func(r mpi.Request, err error) { add(&x.parts, r, err) }
	part(mpi.PrecvInit(w, h.r, 2, h.other, 7))
	part(mpi.PsendInit(w, h.s, 2, h.other, 7))
	return x, errors.Join(errs...)
}

// end frees what the case has.
func (x *memoryCase) end() error {
	_, err := x.p.BufferDetach()
	errs := []error{err, x.ring.Free(), x.inter.Free(), x.self.Free()}
	for _, rs := range [][]mpi.Request{x.persistent, x.parts, x.reqs[:2]} {
		for _, r := range rs {
			errs = append(errs, r.Free())
		}
	}
	return errors.Join(errs...)
}

// memoryCalls are the calls besides allocCalls. Both ranks make them together.
var memoryCalls = map[string]func(*memoryCase) error{
	"persistent collectives": func(x *memoryCase) error {
		return errors.Join(mpi.Startall(x.persistent), mpi.Waitall(x.persistent, nil))
	},
	"persistent collective, used once": func(x *memoryCase) error {
		r, err := mpi.AllreduceInit(x.w, x.r, x.s, mpi.Sum)
		if err = errors.Join(err, r.Start()); err == nil {
			_, err = r.Wait()
		}
		return errors.Join(err, r.Free())
	},
	"partitioned": func(x *memoryCase) error {
		return errors.Join(mpi.Startall(x.parts), x.parts[1].Pready(0), x.parts[1].Pready(1), mpi.Waitall(x.parts, nil))
	},
	"partitioned, used once": func(x *memoryCase) error {
		r, err := mpi.PrecvInit(x.w, x.r, 2, x.other, 8)
		s, err2 := mpi.PsendInit(x.w, x.s, 2, x.other, 8)
		err = errors.Join(err, err2, r.Start(), s.Start(), s.Pready(0), s.Pready(1))
		return errors.Join(err, mpi.Waitall([]mpi.Request{r, s}, nil), r.Free(), s.Free())
	},
	"Mprobe": func(x *memoryCase) error {
		s, err := mpi.Isend(x.w, x.s, x.other, 1)
		m, _, err2 := x.w.Mprobe(x.other, 1)
		if err = errors.Join(err, err2); err == nil {
			_, err = mpi.Mrecv(m, x.r)
		}
		return errors.Join(err, second(s.Wait()))
	},
	"Imrecv": func(x *memoryCase) error {
		s, err := mpi.Issend(x.w, x.s, x.other, 1)
		for done := false; err == nil && !done; {
			var m *mpi.Message
			if m, _, done, err = x.w.Improbe(x.other, 1); done && err == nil {
				r, failed := mpi.Imrecv(m, x.r)
				err = errors.Join(failed, second(r.Wait()))
			}
		}
		return errors.Join(err, second(s.Wait()))
	},
	"Bsend": func(x *memoryCase) error {
		err := mpi.Bsend(x.w, x.s, x.other, 1)
		r, err2 := mpi.Ibsend(x.w, x.s, x.other, 1)
		for range 2 {
			err = errors.Join(err, second(mpi.Recv(x.w, x.r, x.other, 1)))
		}
		return errors.Join(err, err2, second(r.Wait()))
	},
	"cancelled": func(x *memoryCase) error {
		r, err := mpi.Irecv(x.w, x.r, x.other, 99)
		return errors.Join(err, r.Cancel(), second(r.Wait()))
	},
	"gather and scatter": func(x *memoryCase) error {
		return errors.Join(mpi.Gather(x.w, x.big, x.s, 0), mpi.Scatter(x.w, x.s, x.big, 1), mpi.Allgather(x.w, x.big, x.s))
	},
	"alltoall": func(x *memoryCase) error {
		one, at := []int{1, 1}, []int{0, 1}
		return errors.Join(mpi.Alltoall(x.w, x.r, x.s), mpi.Alltoallv(x.w, x.r, one, at, x.s, one, at))
	},
	"immediate alltoall": func(x *memoryCase) error {
		r, err := mpi.Ialltoall(x.w, x.r, x.s)
		return errors.Join(err, second(r.Wait()))
	},
	"reductions": func(x *memoryCase) error {
		return errors.Join(mpi.Scan(x.w, x.r, x.s, mpi.Sum), mpi.Exscan(x.w, x.r, x.s, mpi.Sum),
			mpi.Reduce(x.w, x.r, x.s, mpi.Max, 1), mpi.ReduceScatterBlock(x.w, x.r[:1], x.s, mpi.Sum))
	},
	"neighbors": func(x *memoryCase) error {
		r, err := mpi.IneighborAllgather(x.ring, x.big, x.s)
		return errors.Join(err, second(r.Wait()), mpi.NeighborAllgather(x.ring, x.big, x.s), mpi.NeighborAlltoall(x.ring, x.r, x.s))
	},
	"Dup": func(x *memoryCase) error {
		d, err := x.w.Dup()
		if err != nil {
			return err
		}
		return errors.Join(mpi.Allreduce(d, x.r, x.s, mpi.Sum), d.Free())
	},
	"Idup": func(x *memoryCase) error {
		d, r, err := x.w.Idup()
		if err = errors.Join(err, second(r.Wait())); err != nil {
			return err
		}
		return d.Free()
	},
	"Split": func(x *memoryCase) error {
		c, err := x.w.Split(0, x.w.Rank())
		if err != nil {
			return err
		}
		return errors.Join(second(mpi.Sendrecv(c, x.s, x.other, 1, x.r, x.other, 1)), c.Free())
	},
	"intercommunicator": func(x *memoryCase) error {
		return errors.Join(second(mpi.Sendrecv(x.inter, x.s, 0, 1, x.r, 0, 1)), mpi.Allreduce(x.inter, x.r, x.s, mpi.Sum),
			mpi.Allgather(x.inter, x.r, x.s), x.inter.Barrier())
	},
	"intercommunicator, used once": func(x *memoryCase) error {
		c, err := x.self.CreateIntercomm(0, x.w, x.other, 9)
		if err != nil {
			return err
		}
		return errors.Join(mpi.Allreduce(c, x.r, x.s, mpi.Sum), c.Free())
	},
}

// TestCheckedMemory: what checks remember of a call is forgotten when the call has ended. So the memory does not grow with the
// number of calls. All calls are measured together first, since collecting garbage takes most of the time.
func TestCheckedMemory(t *testing.T) {
	t.Setenv("IBRUN_CHECK", "1")
	calls := maps.Clone(memoryCalls)
	for name, call := range allocCalls {
		calls[name] = func(x *memoryCase) error { return call(x.allocCase) }
	}
	all := func(x *memoryCase) error {
		for name, call := range byName(calls) {
			if err := call(x); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
	o := mpitest.Options{Deadlock: -1} // its watch allocates
	mpitest.RunWith(t, 2, o, func(p *mpi.Process) error {
		x, err := newMemoryCase(p)
		if err != nil {
			return err
		}
		grown, err := x.grows(all)
		if err != nil {
			return err
		}
		if grown != 0 {
			t.Errorf("%d objects more after %d of all calls", grown, memoryRounds())
			for name, call := range byName(calls) {
				if grown, err = x.grows(call); grown != 0 || err != nil {
					t.Errorf("%s: %d objects more after %d calls, %v", name, grown, memoryRounds(), err)
				}
			}
		}
		return x.end()
	})
}

// memoryRounds is how often calls are made before the live objects are counted.
func memoryRounds() int { return soaktest.Choose(1000, 60) }

// grows returns how many live objects more there are after memoryRounds calls. They must become more with each such number of
// calls, else it returns 0: pools and caches are filled once, and the number varies.
func (x *memoryCase) grows(call func(*memoryCase) error) (grown int64, err error) {
	rounds := memoryRounds()
	var objects [4]int64
	for i := range objects {
		for range rounds {
			if err := call(x); err != nil {
				return 0, err
			}
		}
		if err := x.w.Barrier(); err != nil {
			return 0, err
		}
		if x.w.Rank() == 0 {
			objects[i] = int64(liveObjects())
		}
		if err := mpi.Bcast(x.w, objects[i:i+1], 0); err != nil {
			return 0, err
		}
		if i == 0 {
			continue
		}
		if grown = objects[i] - objects[i-1]; grown <= int64(rounds)/2 {
			return 0, nil
		}
	}
	return grown, nil
}
