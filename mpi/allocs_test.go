package mpi_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// allocCase is the state of one rank for the measured calls: its rank, buffers of n numbers, and the two requests of
// a persistent exchange.
type allocCase struct {
	w     *mpi.Comm
	other int
	s, r  []int32
	// sa and ra are s and r as arrays of two columns.
	sa, ra mpi.Array[int32]
	reqs   []mpi.Request
	root   int
	// many and sums are parts of s and r.
	many, sums [2][]int32
}

// newAllocCase returns the state for calls of n numbers.
func newAllocCase(w *mpi.Comm, n int) (*allocCase, error) {
	h := &allocCase{w: w, other: 1 - w.Rank(), s: make([]int32, n), r: make([]int32, n)}
	h.sa, h.ra = mpi.ArrayOf(h.s, n/2, 2), mpi.ArrayOf(h.r, n/2, 2)
	ps, err := mpi.SendInit(w, h.s, h.other, 2)
	pr, err2 := mpi.RecvInit(w, h.r, h.other, 2)
	h.reqs = []mpi.Request{pr, ps, {}, {}}
	return h, errors.Join(err, err2)
}

func (h *allocCase) sendRecv() (err error) {
	if h.w.Rank() == 0 {
		if err = mpi.Send(h.w, h.s, 1, 1); err == nil {
			_, err = mpi.Recv(h.w, h.r, 1, 1)
		}
		return err
	}
	if _, err = mpi.Recv(h.w, h.r, mpi.AnySource, mpi.AnyTag); err == nil {
		err = mpi.Send(h.w, h.s, 0, 1)
	}
	return err
}

func (h *allocCase) recvContext() (err error) {
	ctx := context.Background()
	if h.w.Rank() == 0 {
		if err = mpi.Send(h.w, h.s, 1, 1); err == nil {
			_, err = mpi.RecvContext(ctx, h.w, h.r, 1, 1)
		}
		return err
	}
	m, err := mpi.Irecv(h.w, h.r, 0, 1)
	if err == nil {
		_, err = m.WaitContext(ctx)
	}
	if err == nil {
		err = mpi.Send(h.w, h.s, 0, 1)
	}
	return err
}

func (h *allocCase) one() (err error) {
	if h.w.Rank() == 0 {
		if err = mpi.SendOne(h.w, 1.5, 1, 1); err == nil {
			_, _, err = mpi.RecvOne[float64](h.w, 1, 1)
		}
	} else if _, _, err = mpi.RecvOne[float64](h.w, 0, 1); err == nil {
		err = mpi.SendOne(h.w, 1.5, 0, 1)
	}
	if err == nil {
		_, err = mpi.AllreduceOne(h.w, h.root, mpi.Sum)
	}
	return err
}

func (h *allocCase) isendIrecv() error {
	r, err := mpi.Irecv(h.w, h.r, h.other, 1)
	if err != nil {
		return err
	}
	s, err := mpi.Isend(h.w, h.s, h.other, 1)
	if err != nil {
		return err
	}
	if _, err := s.Wait(); err != nil {
		return err
	}
	_, err = r.Wait()
	return err
}

func (h *allocCase) issendTest() error {
	r, err := mpi.Irecv(h.w, h.r, h.other, 1)
	if err != nil {
		return err
	}
	s, err := mpi.Issend(h.w, h.s, h.other, 1)
	if err != nil {
		return err
	}
	for ok := false; !ok && err == nil; runtime.Gosched() {
		_, ok, err = s.Test()
	}
	for ok := false; !ok && err == nil; runtime.Gosched() {
		_, ok, err = r.Test()
	}
	return err
}

func (h *allocCase) sendrecv() error {
	_, err := mpi.Sendrecv(h.w, h.s, h.other, 1, h.r, h.other, 1)
	return err
}

// columns exchanges columns of a matrix.
func (h *allocCase) columns() error {
	_, err := h.w.Sendrecv(h.sa.Col(0), h.other, 1, h.ra.Col(0), h.other, 1)
	return err
}

func (h *allocCase) waitAnyAll() (err error) {
	reqs := h.reqs[2:4]
	if reqs[0], err = mpi.Irecv(h.w, h.r, h.other, 1); err != nil {
		return err
	}
	if reqs[1], err = mpi.Isend(h.w, h.s, h.other, 1); err != nil {
		return err
	}
	if _, _, err = mpi.Waitany(reqs); err != nil {
		return err
	}
	return mpi.Waitall(reqs, nil)
}

func (h *allocCase) startAll() error {
	if err := mpi.Startall(h.reqs[:2]); err != nil {
		return err
	}
	return mpi.Waitall(h.reqs[:2], nil)
}

func (h *allocCase) iprobe() error {
	s, err := mpi.Isend(h.w, h.s, h.other, 1)
	if err != nil {
		return err
	}
	for ok := false; !ok && err == nil; runtime.Gosched() {
		_, ok, err = h.w.Iprobe(mpi.AnySource, 1)
	}
	if err != nil {
		return err
	}
	if _, err := mpi.Recv(h.w, h.r, h.other, mpi.AnyTag); err != nil {
		return err
	}
	_, err = s.Wait()
	return err
}

func (h *allocCase) barrier() error { return h.w.Barrier() }

// bcast changes the root each time. A fixed root would run ahead, and its messages would be stored as unexpected
// ones, which allocates memory until the store is as large as the flow control window.
func (h *allocCase) bcast() error {
	h.root = 1 - h.root
	return mpi.Bcast(h.w, h.s, h.root)
}

func (h *allocCase) allreduce() error { return mpi.Allreduce(h.w, h.r, h.s, mpi.Sum) }

// allreduceMany sums each of the numbers, in two slices.
func (h *allocCase) allreduceMany() error {
	h.many[0], h.many[1] = h.s[:1], h.s[1:]
	h.sums[0], h.sums[1] = h.r[:1], h.r[1:]
	return mpi.AllreduceMany(h.w, h.sums[:], h.many[:], mpi.Sum)
}

// bcastView is bcast of a column.
func (h *allocCase) bcastView() error {
	h.root = 1 - h.root
	return h.w.Bcast(h.sa.Col(0), h.root)
}

// allViews calls the collectives in which all ranks wait for all, with columns.
func (h *allocCase) allViews() error {
	n := len(h.s) / 2 // rows
	all, own := h.ra.Col(0), h.sa.Sub([]int{0, 0}, []int{n / 2, 1})
	if n%2 != 0 {
		all, own = h.ra.All(), h.sa.Col(0)
	}
	if err := h.w.Allreduce(h.ra.Col(0), h.sa.Col(0), mpi.Sum); err != nil {
		return err
	}
	if err := h.w.Allgather(all, own); err != nil || n%2 != 0 {
		return err
	}
	return h.w.Alltoall(all, h.sa.Col(0))
}

// viewLists calls collectives that have a view for each rank.
func (h *allocCase) viewLists() error {
	n := len(h.s) / 2
	lists := [...]mpi.View{h.ra.Col(0), h.ra.Col(1)}
	if n%2 == 0 {
		lists = [...]mpi.View{h.ra.Col(1), h.ra.Col(0)}
	}
	err := h.w.Gatherv(lists[:], h.sa.Col(0), h.root)
	if err == nil {
		err = h.w.Scatterv(h.ra.Col(0), lists[:], h.root)
	}
	h.root = 1 - h.root
	return err
}

func (h *allocCase) ibcast() error {
	r, err := mpi.Ibcast(h.w, h.r, h.root)
	if err == nil {
		_, err = r.Wait()
	}
	h.root = 1 - h.root
	return err
}

func (h *allocCase) iallreduce() error {
	r, err := mpi.Iallreduce(h.w, h.r, h.s, mpi.Sum)
	if err == nil {
		_, err = r.Wait()
	}
	return err
}

// allowedAllocs returns how often a call of n numbers may allocate.
func allowedAllocs(name string, n int) float64 {
	switch name {
	case "ibcast", "iallreduce":
		if n > 2 || strings.Contains(os.Getenv("IBRUN_TRANSPORT"), "tcp") { // with messages
			return 2 // a message that arrives before its receive is stored under a tag that no other has
		}
	case "one":
		return poolAllocs
	case "bcastView", "allViews", "viewLists": // several pieces of pooled memory for each call
		return 8 * poolAllocs
	}
	return 0
}

// allocCalls are the calls that are measured. Both ranks make them together.
var allocCalls = map[string]func(*allocCase) error{
	"sendRecv":    (*allocCase).sendRecv,
	"recvContext": (*allocCase).recvContext,
	"one":         (*allocCase).one,
	"isendIrecv":  (*allocCase).isendIrecv,
	"issendTest":  (*allocCase).issendTest,
	"sendrecv":    (*allocCase).sendrecv,
	"columns":     (*allocCase).columns,
	"waitAnyAll":  (*allocCase).waitAnyAll,
	"startAll":    (*allocCase).startAll,
	"iprobe":      (*allocCase).iprobe,
	"barrier":     (*allocCase).barrier,
	"bcast":       (*allocCase).bcast,
	"allreduce":   (*allocCase).allreduce,
	"many":        (*allocCase).allreduceMany,
	"ibcast":      (*allocCase).ibcast,
	"iallreduce":  (*allocCase).iallreduce,
	"bcastView":   (*allocCase).bcastView,
	"allViews":    (*allocCase).allViews,
	"viewLists":   (*allocCase).viewLists,
}

// TestAllocs checks that no call of the hot path allocates, for small and large messages. Both ranks are measured, because
// they share a heap.
func TestAllocs(t *testing.T) {
	uncheck(t)
	const runs, warm = 30, 5
	for name, call := range allocCalls {
		for _, n := range []int{2, 20000} {
			var allocs float64
			counted := make(chan struct{})     // what rank 1 does at the end is not counted
			o := mpitest.Options{Deadlock: -1} // what the watch allocates is not counted
			mpitest.RunWith(t, 2, o, func(p *mpi.Process) error {
				w := p.World()
				h, err := newAllocCase(w, n)
				if err != nil {
					return err
				}
				if err := w.Barrier(); err != nil { // short immediate collectives use shared memory from now on
					return err
				}
				for range warm {
					if err := call(h); err != nil {
						return err
					}
				}
				if w.Rank() == 1 {
					for range alloctest.Calls(runs) {
						if err := call(h); err != nil {
							return err
						}
					}
					<-counted
					return nil
				}
				allocs = alloctest.Count(runs, func() { err = errors.Join(err, call(h)) })
				close(counted)
				return err
			})
			if allocs > allowedAllocs(name, n) {
				t.Errorf("%s of %d numbers: %v allocations", name, n, allocs)
			}
		}
	}
}
