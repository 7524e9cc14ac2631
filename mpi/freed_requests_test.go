package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/leakcheck"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// freedOrder is the order in which the ranks free a communicator.
type freedOrder uint8

const (
	unordered freedOrder = iota
	ownerFirst
	ownerLast
	freedOrders
)

// freeing is a way to free a communicator.
type freeing struct {
	free func(x *freedRank) error
	// completes says that it returns when messages are complete, so that none must be without its other side.
	completes bool
	ofSession bool
}

var freeings = map[string]freeing{
	"Free":       {free: func(x *freedRank) error { return x.c.Free() }},
	"Disconnect": {free: func(x *freedRank) error { return x.c.Disconnect() }, completes: true},
	"Close":      {free: func(x *freedRank) error { return x.session.Close() }, ofSession: true},
}

// newFreedRank returns a rank without a communicator.
func newFreedRank(p *mpi.Process) *freedRank {
	return &freedRank{p: p, w: p.World(), out: make([]byte, longMessage), in: make([]byte, longMessage),
		attached: make([]byte, 3*longMessage)}
}

// create creates the communicator.
func (x *freedRank) create(how freeing) (err error) {
	x.message, x.call, x.dup = nil, nil, nil
	if !how.ofSession {
		x.c, err = x.w.Dup()
	} else if x.session, err = x.p.OpenSession(nil); err == nil {
		x.c, err = fromSet(x.session, "mpi://WORLD", "freed")
	}
	return err
}

// meet returns when rank 0 and rank 1 have called it. What they have sent each other before has then arrived.
func (x *freedRank) meet() error {
	me := x.w.Rank()
	if me > 1 {
		return nil
	}
	return second(mpi.Sendrecv(x.w, []int{0}, 1-me, 50, []int{0}, 1-me, 50))
}

// begin makes the requests of a case. It returns that of this rank.
func (x *freedRank) begin(c *freedCase) (r mpi.Request, err error) {
	me := x.w.Rank()
	call := func(here bool, f begin) {
		if here && f != nil && err == nil {
			r, err = f(x)
		}
	}
	if c.collective {
		call(me == 0, c.owner)
		call(me != 0, c.last)
		return r, err
	}
	call(me == 1, c.peer)
	err = errors.Join(err, x.meet())
	call(me == 0, c.owner)
	err = errors.Join(err, x.meet())
	call(me == 1, c.last)
	return r, err
}

// inOrder returns when it is the turn of this rank to free the communicator.
func (x *freedRank) inOrder(order freedOrder) error {
	me, last := x.w.Rank(), order == ownerLast
	var errs []error
	for other := 1; other < x.w.Size() && order != unordered; other++ {
		switch token := []int{0}; {
		case me == 0 && last:
			errs = append(errs, second(mpi.Recv(x.w, token, other, 51)))
		case me == 0:
			errs = append(errs, mpi.Send(x.w, token, other, 51))
		case me == other && last:
			errs = append(errs, mpi.Send(x.w, token, 0, 51))
		case me == other:
			errs = append(errs, second(mpi.Recv(x.w, token, 0, 51)))
		}
	}
	return errors.Join(errs...)
}

// end checks how a request ends after its communicator was freed.
func (x *freedRank) end(c *freedCase, how freeing, r mpi.Request) error {
	me, want := x.w.Rank(), c.outcome(x.w.Rank())
	if how.completes && !c.collective {
		want = completes
	}
	var errs []error
	if me == 0 && c.after != nil {
		errs = append(errs, c.after(x))
	}
	_, failed := r.Wait()
	if want == completes || want != fails && failed == nil {
		errs = append(errs, failed)
	} else {
		errs = append(errs, freedError(failed))
		if c.collective && failed != nil && x.dup == nil {
			errs = append(errs, check(strings.Contains(failed.Error(), notAllStarted), "the reason is missing: %v", failed))
		}
	}
	if x.dup != nil && failed == nil {
		errs = append(errs, checkSum(x.dup), x.dup.Free())
	}
	return errors.Join(append(errs, startFreed(r))...)
}

// startFreed checks that a request whose communicator was freed fails when it is started again, if it is persistent.
func startFreed(r mpi.Request) error {
	for range 2 {
		err := r.Start()
		if errors.Is(err, mpi.ErrRequest) { // it is not persistent
			return nil
		}
		if err == nil {
			_, err = r.Wait()
		}
		if err := freedError(err); err != nil {
			return fmt.Errorf("started again: %w", err)
		}
	}
	return r.Free()
}

func freedCases() []freedCase {
	return slices.Concat(freedSends(), freedReceives(), freedMatched(), freedCalls(), freedPartitioned(), freedCollectives())
}

// outcome returns the outcome of the request of a rank.
func (c *freedCase) outcome(me int) outcome {
	switch {
	case me == 0:
		return c.want
	case me == 1 || c.collective:
		return c.peerWant
	}
	return completes // of no request
}

// isEndless reports whether a message of a case would never complete if the communicator were not freed.
func (c *freedCase) isEndless() bool {
	return c.unreceived || !c.collective && (c.want == fails || c.peerWant == fails || c.after != nil)
}

// differs reports whether the ranks call different collectives.
func (c *freedCase) differs() bool {
	return c.collective && (c.want != completes || c.peerWant != completes)
}

// free frees communicators with requests of all kinds, which prepare has prepared.
func (x *freedRank) free(how freeing, skip func(*freedCase) bool, prepare func(c *mpi.Comm) error) error {
	if err := x.p.BufferAttach(x.attached); err != nil {
		return err
	}
	for i, c := range freedCases() {
		for order := range freedOrders {
			if skip(&c) || !soaktest.On() && int(order) != i%int(freedOrders) {
				continue
			}
			err := x.create(how)
			if err == nil {
				err = prepare(x.c)
			}
			var r mpi.Request
			if err == nil {
				r, err = x.begin(&c)
			}
			err = errors.Join(err, x.inOrder(order))
			if err == nil {
				err = how.free(x)
			}
			if err == nil {
				err = x.end(&c, how, r)
			}
			if err != nil {
				return fmt.Errorf("%s, order %d: %w", c.name, order, err)
			}
		}
	}
	return second(x.p.BufferDetach())
}

func noCase(*freedCase) bool { return false }

func noPreparation(*mpi.Comm) error { return nil }

// freedOptions are the options of worlds in which communicators are freed: a longMessage waits for its receiver.
func freedOptions() mpitest.Options {
	return mpitest.Options{Unchecked: true, Config: mpi.Config{Thresholds: mpi.Thresholds{ShmStream: 64 << 10}}}
}

// freedForms are the ways in which collectives run on the communicator: by messages, over memory that its ranks share, and on two
// levels. In the last one messages have the lengths of their receives.
var freedForms = map[string]struct {
	ranks   int
	machine func(int) mpitest.Machine
	prepare func(c *mpi.Comm) error
}{
	"messages": {ranks: 2, prepare: noPreparation},
	"shared":   {ranks: 2, prepare: (*mpi.Comm).Barrier},
	"nodes": {ranks: 3, machine: pairedNodes, prepare: func(c *mpi.Comm) error {
		return errors.Join(c.SetInfo(infoOf(exactLength, "true")), c.Barrier())
	}},
}

// TestFreedRequests: requests of every kind, in every state, when the communicator is freed. Those that nobody can complete fail,
// the others complete, and nothing hangs.
func TestFreedRequests(t *testing.T) {
	for name, how := range byName(freeings) {
		for form, f := range byName(freedForms) {
			if name != "Free" && form != "messages" && !soaktest.On() {
				continue
			}
			t.Run(name+", "+form, func(t *testing.T) {
				o := freedOptions()
				o.Machine = f.machine
				skip := func(c *freedCase) bool { return how.completes && c.isEndless() }
				mpitest.RunWith(t, f.ranks, o, func(p *mpi.Process) error { return newFreedRank(p).free(how, skip, f.prepare) })
			})
		}
	}
}

// TestFreedRequestsChecked: the same if calls are checked, except collectives that differ. Finalize reports the messages that
// were never received.
func TestFreedRequestsChecked(t *testing.T) {
	t.Setenv("IBRUN_CHECK", "1")
	o := freedOptions()
	o.Unchecked = false
	mpitest.RunWith(t, 2, o, func(p *mpi.Process) error {
		err := newFreedRank(p).free(freeings["Free"], (*freedCase).differs, noPreparation)
		if p.World().Rank() == 1 { // most messages are sent to this rank
			err = errors.Join(err, ofClass(p.Finalize(), mpi.ErrOther))
		}
		return err
	})
}

// TestFreeAnswers: a rank without receives leaves Free when the others need no answer of it any more.
func TestFreeAnswers(t *testing.T) {
	const rounds = 50
	over := make([]chan struct{}, rounds)
	for i := range over {
		over[i] = make(chan struct{})
	}
	mpitest.RunWith(t, 2, freedOptions(), func(p *mpi.Process) error {
		for i := range rounds {
			c, err := p.World().Dup()
			if err != nil {
				return err
			}
			if c.Rank() == 1 {
				if err := c.Free(); err != nil {
					return err
				}
				<-over[i] // without progress
				continue
			}
			r, err := mpi.Irecv(c, []int{0}, mpi.AnySource, 1)
			err = errors.Join(err, c.Free())
			close(over[i])
			if err = errors.Join(err, freedError(second(r.Wait()))); err != nil {
				return err
			}
		}
		return nil
	})
}

// notAllStarted is the reason why a collective fails with ErrComm.
const notAllStarted = "not all ranks have started the same immediate collectives, persistent collectives and Idups"

// TestFreeDiffersChecked: if calls are checked, Free fails at all ranks if they have not started the same collectives. The
// communicator remains valid.
func TestFreeDiffersChecked(t *testing.T) {
	runChecked(t, 3, func(p *mpi.Process) error {
		w := p.World()
		c, err := w.Dup()
		if err != nil {
			return err
		}
		var r mpi.Request
		if w.Rank() == 1 {
			r, err = c.Ibarrier()
		}
		failed := c.Free()
		err = errors.Join(err, ofClass(failed, mpi.ErrOther),
			check(strings.Contains(fmt.Sprint(failed), notAllStarted), "the reason is missing: %v", failed))
		if w.Rank() != 1 && err == nil {
			r, err = c.Ibarrier()
		}
		return errors.Join(err, second(r.Wait()), c.Free())
	})
}

// TestFreeComparesArguments: if calls are checked, immediate collectives whose roots or lengths differ fail at all ranks, also if
// the communicator is freed while they are in progress. Free waits until the calls have been compared.
func TestFreeComparesArguments(t *testing.T) {
	for name, x := range map[string]struct {
		start func(c *mpi.Comm) (mpi.Request, error)
		want  mpi.Class
	}{
		"roots": {func(c *mpi.Comm) (mpi.Request, error) { return mpi.Ibcast(c, make([]int, 1), c.Rank()%2) }, mpi.ErrRoot},
		"lengths": {func(c *mpi.Comm) (mpi.Request, error) {
			b := make([]int, 1+c.Rank()%2)
			return mpi.Iallreduce(c, b, b, mpi.Sum)
		}, mpi.ErrCount},
	} {
		t.Run(name, func(t *testing.T) {
			runChecked(t, 3, func(p *mpi.Process) error {
				c, err := p.World().Dup()
				if err != nil {
					return err
				}
				r, err := x.start(c)
				return errors.Join(err, c.Free(), ofClass(second(r.Wait()), x.want))
			})
		})
	}
}

// TestFinalizedRequests: requests of every kind, in every state, when all ranks call Finalize. What needs a rank that has left
// the World Model may fail with ErrProcFailed.
func TestFinalizedRequests(t *testing.T) {
	for _, n := range []int{2, 3} {
		mpitest.RunWith(t, n, freedOptions(), func(p *mpi.Process) error {
			var cases []freedCase
			var reqs []mpi.Request
			x := newFreedRank(p)
			if err := p.BufferAttach(make([]byte, 20*longMessage)); err != nil {
				return err
			}
			for _, c := range freedCases() {
				if c.after != nil { // a call after Finalize
					continue
				}
				x.in = make([]byte, longMessage)
				err := x.create(freeings["Free"])
				var r mpi.Request
				if err == nil {
					r, err = x.begin(&c)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				cases, reqs = append(cases, c), append(reqs, r)
			}
			me := p.World().Rank()
			errs := []error{p.Finalize()}
			for i, r := range reqs {
				if err := finalized(&cases[i], me, r); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", cases[i].name, err))
				}
			}
			return errors.Join(errs...)
		})
	}
}

// finalized checks how a request ends after Finalize.
func finalized(c *freedCase, me int, r mpi.Request) error {
	want := c.outcome(me)
	_, err := r.Wait()
	switch {
	case strings.HasPrefix(c.name, "Idup"): // it must not be in progress; but Wait returns
		return nil
	case err == nil && want == fails:
		return errors.New("completed")
	case err != nil && !errors.Is(err, mpi.ErrComm) && !errors.Is(err, mpi.ErrProcFailed):
		return err
	}
	return startFreed(r)
}

// TestFreedIntercomm: requests between two groups, whose communicator is freed.
func TestFreedIntercomm(t *testing.T) {
	withIntercomm(t, func(_ *mpi.Process, _ *mpi.Session, c *mpi.Comm) error {
		stay, err := c.Dup() // a rank that leaves the job is another matter
		x := make([]byte, longMessage)
		var reqs []mpi.Request
		errs := []error{err}
		add := func(r mpi.Request, err error) { reqs, errs = append(reqs, r), append(errs, err) }
		addStarted := func(r mpi.Request, err error) { add(r, errors.Join(err, r.Start())) }
		add(mpi.Irecv(c, x[:8], mpi.AnySource, 1))
		add(mpi.Issend(c, x[:8], 0, 2))
		add(mpi.Isend(c, x, 0, 3))
		addStarted(mpi.SsendInit(c, x[:8], 0, 4))
		addStarted(mpi.PrecvInit(c, x[:8], 2, 0, 5))
		if c.Size() == 2 { // one of the groups
			add(c.Ibarrier())
		}
		errs = append(errs, c.Free())
		for i, r := range reqs {
			if err := errors.Join(freedError(second(r.Wait())), startFreed(r)); err != nil {
				errs = append(errs, fmt.Errorf("request %d: %w", i, err))
			}
		}
		return errors.Join(append(errs, stay.Free())...)
	})
}

// TestFreedMemory: freed communicators with requests of all kinds leave no memory, no goroutine and no descriptor behind.
func TestFreedMemory(t *testing.T) {
	before := leakcheck.Take(t, leakcheck.Files)
	rounds := soaktest.Choose(50, 3)
	var objects [3]uint64 // live after so many times rounds
	o := freedOptions()
	o.Deadlock = -1 // its watch allocates
	mpitest.RunWith(t, 2, o, func(p *mpi.Process) error {
		x := newFreedRank(p)
		for i := range objects {
			for range rounds {
				if err := x.free(freeings["Free"], noCase, noPreparation); err != nil {
					return err
				}
			}
			err := x.w.Barrier()
			if x.w.Rank() == 0 {
				objects[i] = liveObjects()
			}
			if err = errors.Join(err, x.w.Barrier()); err != nil {
				return err
			}
		}
		return nil
	})
	// The first rounds fill pools and caches. Later their use varies by some dozens; a round has more than 150 communicators.
	if grown := int64(objects[2] - objects[1]); grown > 100 {
		t.Errorf("%d objects more after %d rounds: %v", grown, rounds, objects)
	}
	before.Compare(t)
}
