package mpi_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// needsLeft are the calls that need a rank which has left the World Model. Each gets a communicator of its own.
var needsLeft = []struct {
	name string
	call func(c *mpi.Comm, left int) error
}{
	{"Recv", func(c *mpi.Comm, left int) error { _, err := mpi.Recv(c, []int{0}, left, 7); return err }},
	{"Recv of any tag", func(c *mpi.Comm, left int) error { _, err := mpi.Recv(c, []int{0}, left, mpi.AnyTag); return err }},
	{"Irecv and Wait", func(c *mpi.Comm, left int) error {
		r, err := mpi.Irecv(c, []int{0}, left, 7)
		if err == nil {
			_, err = r.Wait()
		}
		return err
	}},
	{"Irecv and Test", func(c *mpi.Comm, left int) error {
		r, err := mpi.Irecv(c, []int{0}, left, 7)
		for done := false; err == nil && !done; runtime.Gosched() {
			_, done, err = r.Test()
		}
		return err
	}},
	{"Irecv and Waitany", func(c *mpi.Comm, left int) error {
		r, err := mpi.Irecv(c, make([]int, 100_000), left, 7)
		if err == nil {
			_, _, err = mpi.Waitany([]mpi.Request{{}, r})
		}
		return err
	}},
	{"Probe", func(c *mpi.Comm, left int) error { _, err := c.Probe(left, 7); return err }},
	{"Iprobe", func(c *mpi.Comm, left int) (err error) {
		for found := false; err == nil && !found; runtime.Gosched() {
			_, found, err = c.Iprobe(left, 7)
		}
		return err
	}},
	{"Ssend", func(c *mpi.Comm, left int) error { return mpi.Ssend(c, []int{1}, left, 7) }},
	{"Issend and Wait", func(c *mpi.Comm, left int) error {
		r, err := mpi.Issend(c, []int{1}, left, 7)
		if err == nil {
			_, err = r.Wait()
		}
		return err
	}},
	{"long Send", func(c *mpi.Comm, left int) error { return mpi.Send(c, make([]byte, 20<<20), left, 7) }},
	{"Barrier", func(c *mpi.Comm, _ int) error { return c.Barrier() }},
	{"Allreduce", func(c *mpi.Comm, _ int) error { x := []int{1}; return mpi.Allreduce(c, x, x, mpi.Sum) }},
	{"long Allreduce", func(c *mpi.Comm, _ int) error {
		x := make([]int, 200_000)
		return mpi.Allreduce(c, x, x, mpi.Sum)
	}},
	{"Bcast", func(c *mpi.Comm, left int) error { return mpi.Bcast(c, []int{1}, left) }},
	{"Alltoall", func(c *mpi.Comm, _ int) error {
		return mpi.Alltoall(c, make([]int, c.Size()), make([]int, c.Size()))
	}},
	{"Dup", func(c *mpi.Comm, _ int) error { _, err := c.Dup(); return err }},
	{"Split", func(c *mpi.Comm, _ int) error { _, err := c.Split(0, 0); return err }},
	{"Free", func(c *mpi.Comm, _ int) error { return c.Free() }},
	{"Idup", func(c *mpi.Comm, _ int) error {
		_, r, err := c.Idup()
		if err == nil {
			_, err = r.Wait()
		}
		return err
	}},
	{"Create", func(c *mpi.Comm, _ int) error { _, err := c.Create(c.Group()); return err }},
	{"CreateGroup", func(c *mpi.Comm, _ int) error { _, err := c.CreateGroup(c.Group(), 3); return err }},
	{"CommFromGroup", func(c *mpi.Comm, _ int) error {
		_, err := mpi.CommFromGroup(c.Group(), "", nil)
		return err
	}},
}

// finalizeEarly: one rank calls Finalize, and the others still need it. Their calls fail, again and again, and what the rank has
// sent before arrives. atOnce runs the calls concurrently.
func finalizeEarly(p *mpi.Process, atOnce bool) error {
	w := p.World()
	me, n := w.Rank(), w.Size()
	left := n / 2
	comms := make([]*mpi.Comm, len(needsLeft))
	for i := range comms {
		var err error
		if comms[i], err = w.Dup(); err != nil {
			return err
		}
		if i%2 == 0 { // with memory shared by all ranks, where there is any
			if err := comms[i].Barrier(); err != nil {
				return err
			}
		}
	}
	long := bytes.Repeat([]byte{1, 2, 3}, 2_000_000)
	if me == left {
		for r := range n {
			if r == me {
				continue
			}
			if err := mpi.Send(w, []int{me}, r, 1); err != nil {
				return err
			}
			r, err := mpi.Isend(w, long, r, 2) // completed by Finalize
			if err := errors.Join(err, r.Free()); err != nil {
				return err
			}
		}
		return nil // the caller finalizes
	}
	errs := make([]error, len(needsLeft))
	var calls sync.WaitGroup
	for i, x := range needsLeft {
		call := func() {
			for range 2 {
				if err := ofClass(x.call(comms[i], left), mpi.ErrProcFailed); err != nil {
					errs[i] = fmt.Errorf("%s: %w", x.name, err)
				}
			}
		}
		if atOnce {
			calls.Go(call)
		} else {
			call()
		}
	}
	calls.Wait()
	x, in := []int{0}, make([]byte, len(long))
	_, err := mpi.Recv(w, x, left, 1)
	_, errLong := mpi.Recv(w, in, left, 2)
	errs = append(errs, err, errLong, check(x[0] == left && bytes.Equal(in, long), "messages sent before Finalize arrived wrong"))
	if me == (left+1)%n {
		errs = append(errs, sendToItself(w))
	}
	return errors.Join(errs...)
}

// sendToItself is the end of the last rank. When all others are known to have left, it can still receive from any source what it
// sends to itself.
func sendToItself(w *mpi.Comm) error {
	x := []int{0}
	r, err := mpi.Irecv(w, x, mpi.AnySource, 9)
	errs := []error{err}
	for other := range w.Size() {
		if other != w.Rank() {
			_, err := mpi.Recv(w, []int{0}, other, 9)
			errs = append(errs, ofClass(err, mpi.ErrProcFailed))
		}
	}
	errs = append(errs, mpi.Send(w, []int{42}, w.Rank(), 9))
	_, err = r.Wait()
	return errors.Join(append(errs, err, check(x[0] == 42, "received %d", x[0]))...)
}

// TestFinalizeEarly: a rank that has called Finalize is known to have left, to the only other one and to several that need it.
func TestFinalizeEarly(t *testing.T) {
	for _, n := range soaktest.Choose([]int{2, 3, 4, 5}, []int{2, 4}) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			mpitest.Run(t, n, func(p *mpi.Process) error { return finalizeEarly(p, !soaktest.On()) })
		})
	}
}

// leaveEarly: one process leaves the job, and the others create communicators with it, and open the World Model. Among themselves
// they can still create communicators.
func leaveEarly(p *mpi.Process) error {
	s, err := p.OpenSession(nil)
	if err != nil {
		return err
	}
	all, err := s.Group("mpi://WORLD")
	if err != nil {
		return err
	}
	me, n := all.Rank(), all.Size()
	left := n - 1
	if me == left {
		return errors.Join(s.Close(), p.Leave())
	}
	_, err = mpi.CommFromGroup(all, "never", nil)
	errs := []error{ofClass(err, mpi.ErrProcFailed)}
	if _, err = mpi.CommFromGroup(all, "never", nil); err == nil {
		errs = append(errs, errors.New("a second attempt succeeded"))
	}
	others, err := all.Excl(left)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	c, err := mpi.CommFromGroup(others, "rest", nil)
	if err != nil {
		return err
	}
	pair, err := all.Incl(me, left)
	errs = append(errs, err, checkUsable(c), c.Free())
	_, err = mpi.CommFromGroup(pair, "never", nil) // from now on this process knows it, and not only another one
	return errors.Join(append(errs, ofClass(err, mpi.ErrProcFailed), s.Close(), ofClass(p.InitWorld(), mpi.ErrProcFailed),
		check(p.World() == nil, "a World after InitWorld has failed"), p.Leave())...)
}

// endWithout is a rank that ends by end, without Finalize and without a word. The others need it, in different ways; most are not
// connected to it. No launcher ends the job.
func endWithout(p *mpi.Process, end func() error) error {
	w := p.World()
	me, n := w.Rank(), w.Size()
	left := n - 1
	err := w.Barrier() // the others have begun it, so they have initialised; it may fail there
	if me == left {
		return errors.Join(err, end())
	}
	calls := needsLeft[:0:0]
	for _, x := range needsLeft {
		switch x.name {
		case "Recv", "Irecv and Test", "Probe", "Ssend", "Barrier", "CommFromGroup": // one collective only: their orders differ
			calls = append(calls, x)
		}
	}
	for i := range calls { // the first one of each rank is another
		x := calls[(i+me)%len(calls)]
		if err := ofClass(x.call(w, left), mpi.ErrProcFailed); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return nil
}

// TestLeaveBefore: a process leaves before the others know it: they have no connection to it.
func TestLeaveBefore(t *testing.T) {
	for _, n := range []int{2, 3, 4, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			runSessionsOnly(t, n, leaveEarly)
		})
	}
}
