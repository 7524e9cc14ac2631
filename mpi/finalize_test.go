package mpi_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestFinalizeCallbacks: a callback of Self runs while everything works: it creates communicators in every way, and frees one.
// What it leaves is closed by Finalize, once, with its attributes.
func TestFinalizeCallbacks(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		w := p.World()
		mine, err := w.Dup()
		if err != nil {
			return err
		}
		var order []string
		note := mpi.NewKeyval(p, nil, func(_ *mpi.Comm, name string) error {
			order = append(order, name)
			return nil
		})
		var made []*mpi.Comm
		onSelf := mpi.NewKeyval(p, nil, func(*mpi.Comm, int) error {
			errs := []error{check(!p.Finalized(), "Finalized within a callback"), mine.Free()}
			s, err := p.OpenSession(nil)
			if err != nil {
				return err
			}
			inSession, err1 := fromSet(s, "mpi://WORLD", "callback")
			dup, err2 := w.Dup()
			split, err3 := w.Split(0, 0)
			group, err4 := mpi.CommFromGroup(w.Group(), "callback", nil)
			made = []*mpi.Comm{dup, split, group}
			for i, c := range append(made, inSession) {
				if c != nil {
					errs = append(errs, checkUsable(c), note.Set(c, fmt.Sprint("made ", i)))
				}
			}
			return errors.Join(append(errs, err1, err2, err3, err4, note.Set(p.Self(), "self"), s.Close(), p.Finalize())...)
		})
		errs := []error{note.Set(mine, "freed"), note.Set(w, "world"), onSelf.Set(p.Self(), 1), p.Finalize(),
			check(p.Finalized(), "not finalized")}
		for _, c := range append(made, mine, w, p.Self()) {
			errs = append(errs, ofClass(c.Barrier(), mpi.ErrComm))
		}
		slices.Sort(order)
		return errors.Join(append(errs, check(len(made) == 3, "%d communicators", len(made)),
			check(slices.Equal(order, []string{"freed", "made 0", "made 1", "made 2", "made 3", "self", "world"}),
				"deleted %q", order))...)
	})
}

// TestFinalizeEndless: callbacks that create a communicator with an attribute every time do not keep Finalize from ending.
func TestFinalizeEndless(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		var key mpi.Keyval[int]
		key = mpi.NewKeyval(p, nil, func(c *mpi.Comm, n int) error {
			if c != p.Self() {
				if err := c.Free(); err != nil {
					return err
				}
			}
			d, err := p.Self().Dup()
			return errors.Join(err, key.Set(d, n+1))
		})
		return errors.Join(key.Set(p.Self(), 0), ofClass(p.Finalize(), mpi.ErrOther))
	})
}

// TestCloseCallbacks: callbacks that run when a session closes may use the session, and free and create its communicators.
func TestCloseCallbacks(t *testing.T) {
	runSessionsOnly(t, 3, inSession(func(p *mpi.Process, _ *mpi.Session) error {
		s, err := p.OpenSession(nil)
		if err != nil {
			return err
		}
		first, err := fromSet(s, "mpi://WORLD", "first")
		second, err2 := fromSet(s, "mpi://WORLD", "second")
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		var made *mpi.Comm
		deleted := 0
		key := mpi.NewKeyval(p, nil, func(c *mpi.Comm, v int) (err error) {
			if deleted++; c != second {
				return nil
			}
			if made, err = fromSet(s, "mpi://WORLD", "made"); err != nil {
				return err
			}
			return errors.Join(checkUsable(made), first.Free(), ofClass(s.Close(), mpi.ErrSession))
		})
		errs := []error{key.Set(first, 1), key.Set(second, 2), s.Close(), check(deleted == 2, "%d callbacks", deleted)}
		for _, c := range []*mpi.Comm{first, second, made} {
			errs = append(errs, ofClass(c.Barrier(), mpi.ErrComm))
		}
		return errors.Join(errs...)
	}))
}

// TestHintsFromGroup: communicators that are created from groups have the hints of the info.
func TestHintsFromGroup(t *testing.T) {
	mpitest.Run(t, 4, func(p *mpi.Process) error {
		g := p.World().Group()
		given := []string{noAnyTag, "true", overtaking, "true", eagerLimit, "77", strictOrder, "true"}
		c, err := mpi.CommFromGroup(g, "c", infoOf(given...))
		if err != nil {
			return err
		}
		errs := []error{hinted(c, changed(given...)), checkUsable(c)}
		_, err = mpi.Recv(c, []int{0}, 0, mpi.AnyTag)
		errs = append(errs, ofClass(err, mpi.ErrTag), c.Free())
		// A hint that must be the same at all ranks.
		_, err = mpi.CommFromGroup(g, "c", infoOf(strictOrder, fmt.Sprint(g.Rank() == 0)))
		errs = append(errs, ofClass(err, mpi.ErrInfoValue))
		low, err1 := g.Incl(0, 1)
		high, err2 := g.Incl(2, 3)
		if g.Rank() >= 2 {
			low, high = high, low
		}
		x, err3 := mpi.IntercommFromGroups(low, high, "x", infoOf(given...))
		if err := errors.Join(append(errs, err1, err2, err3)...); err != nil {
			return err
		}
		return errors.Join(hinted(x, changed(given...)), x.Free())
	})
}

// TestAnyTagPending: the hint that no receive has AnyTag is not in force, and is not reported, while such a receive waits.
func TestAnyTagPending(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w := p.World()
		with := 1 - w.Rank()
		x := []int{0}
		r, err := mpi.Irecv(w, x, with, mpi.AnyTag)
		if err != nil {
			return err
		}
		errs := []error{w.SetInfo(infoOf(noAnyTag, "true", noAnySource, "true")), hintIs(w, noAnyTag, "false"),
			hintIs(w, noAnySource, "true"), w.Barrier(), mpi.Send(w, []int{5}, with, 3)}
		_, err = r.Wait()
		errs = append(errs, err, check(x[0] == 5, "received %d", x[0]), w.SetInfo(infoOf(noAnyTag, "true")),
			hintIs(w, noAnyTag, "true"))
		_, err = mpi.Recv(w, x, with, mpi.AnyTag)
		return errors.Join(append(errs, ofClass(err, mpi.ErrTag))...)
	})
}

// TestTwinPsets: of sets with the same name, such as those of two nodes with the same name, each process finds its own, whatever
// their order. A process in none of them finds none.
func TestTwinPsets(t *testing.T) {
	twins := []mpitest.Pset{
		{Name: "twin", Ranks: []int{0, 1}}, {Name: "only", Ranks: []int{1, 4}}, {Name: "twin", Ranks: []int{2, 3}},
	}
	for range 2 {
		slices.Reverse(twins)
		o := mpitest.Options{JoinOnly: true, Psets: func() []mpitest.Pset { return twins }}
		mpitest.RunWith(t, 5, o, inSession(func(_ *mpi.Process, s *mpi.Session) error {
			all, err := s.Group("mpi://WORLD")
			if err != nil {
				return err
			}
			only, err := members(s, "only")
			errs := []error{err, check(slices.Equal(only, []int{1, 4}), "set only has %v", only)}
			ranks, err := members(s, "twin")
			n, errSize := sizeOf(s, "twin")
			if me := all.Rank(); me == 4 {
				errs = append(errs, ofClass(err, mpi.ErrArg), ofClass(errSize, mpi.ErrArg))
			} else {
				first := me / 2 * 2
				errs = append(errs, err, errSize,
					check(n == 2 && slices.Equal(ranks, []int{first, first + 1}), "set twin has %v", ranks))
			}
			return errors.Join(errs...)
		}))
	}
}

// TestFinalizePanic: a deferred Finalize that runs because of a panic or of Goexit returns an error and does nothing. If the
// program goes on, Finalize works as before.
func TestFinalizePanic(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		for name, leave := range map[string]func(){
			"a panic":        func() { panic("out of luck") },
			"runtime.Goexit": runtime.Goexit,
		} {
			got := make(chan error, 1)
			go func() {
				defer func() { _ = recover() }()
				defer func() { got <- p.Finalize() }()
				leave()
			}()
			if err := <-got; !errors.Is(err, mpi.ErrOther) || !strings.Contains(err.Error(), "because of "+name) {
				return fmt.Errorf("Finalize because of %s: %w", name, err)
			}
		}
		if p.Finalized() {
			return errors.New("Finalize has done something")
		}
		if err := p.World().Barrier(); err != nil {
			return err
		}
		var err error
		func() {
			defer func() { err = p.Finalize() }() // deferred as usual
		}()
		if err != nil || !p.Finalized() {
			return fmt.Errorf("finalized %v: %w", p.Finalized(), err)
		}
		return nil
	})
}
