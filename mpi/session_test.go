package mpi_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// ocean and air are process sets that divide worlds of more than one rank; pairs overlap with both.
var psets = map[int][]mpitest.Pset{
	1: {{Name: "ocean", Ranks: []int{0}}},
	3: {{Name: "air", Ranks: []int{0, 2}}, {Name: "ocean", Ranks: []int{1}}, {Name: "Pairs of 1", Ranks: []int{1, 2}}},
	5: {{Name: "air", Ranks: []int{1, 4}}, {Name: "ocean", Ranks: []int{0, 2, 3}}},
}

// runSessionsOnly runs f at ranks without the World Model.
func runSessionsOnly(t *testing.T, n int, f func(p *mpi.Process) error) {
	t.Helper()
	mpitest.RunWith(t, n, mpitest.Options{JoinOnly: true, Psets: func() []mpitest.Pset { return psets[n] }}, f)
}

// sessions runs each statement on one rank and on three, in an open session.
func sessions(t *testing.T, all map[string]func(p *mpi.Process, s *mpi.Session) error) {
	for id, f := range byName(all) {
		t.Run(id, func(t *testing.T) {
			for _, n := range []int{1, 3} {
				runSessionsOnly(t, n, inSession(f))
			}
		})
	}
}

func inSession(f func(p *mpi.Process, s *mpi.Session) error) func(p *mpi.Process) error {
	return func(p *mpi.Process) error {
		s, err := p.OpenSession(nil)
		if err != nil {
			return err
		}
		return errors.Join(f(p, s), s.Close())
	}
}

// fromSet creates a communicator of a process set.
func fromSet(s *mpi.Session, name, tag string) (*mpi.Comm, error) {
	g, err := s.Group(name)
	if err != nil {
		return nil, err
	}
	return mpi.CommFromGroup(g, tag, nil)
}

// checkUsable uses a communicator: it runs a collective, and sends messages around a ring.
func checkUsable(c *mpi.Comm) error {
	n, me := c.Size(), c.Rank()
	sum, x := []int{0}, []int{-1}
	if err := mpi.Allreduce(c, sum, []int{me + 1}, mpi.Sum); err != nil || sum[0] != n*(n+1)/2 {
		return fmt.Errorf("sum %d of %d ranks, %w", sum[0], n, err)
	}
	_, err := mpi.Sendrecv(c, []int{me}, (me+1)%n, 1, x, (me+n-1)%n, 1)
	return errors.Join(err, check(x[0] == (me+n-1)%n, "message of %d", x[0]))
}

func TestSessionAlone(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		runSessionsOnly(t, n, inSession(func(p *mpi.Process, s *mpi.Session) error {
			c, err := fromSet(s, "mpi://WORLD", "org.ibrun.test")
			if err != nil {
				return err
			}
			self, err := fromSet(s, "mpi://SELF", "org.ibrun.test")
			if err != nil {
				return err
			}
			d, err := c.Dup()
			if err != nil {
				return err
			}
			half, err := d.Split(d.Rank()%2, 0)
			if err != nil {
				return err
			}
			errs := []error{checkUsable(c), checkUsable(self), checkUsable(d), checkUsable(half),
				check(p.World() == nil && p.Self() == nil, "a World"),
				ofClass(p.World().Barrier(), mpi.ErrComm), ofClass(p.Finalize(), mpi.ErrOther)}
			return errors.Join(append(errs, self.Free(), c.Free(), checkUsable(d), half.Disconnect(), d.Free())...)
		}))
	}
}

// TestSessionsAndWorld: sessions before, during and after the World Model, and again after they were closed.
func TestSessionsAndWorld(t *testing.T) {
	runSessionsOnly(t, 3, func(p *mpi.Process) error {
		use := func(s *mpi.Session, err error) error {
			if err != nil {
				return err
			}
			c, err := fromSet(s, "mpi://WORLD", "t")
			if err != nil {
				return err
			}
			return errors.Join(checkUsable(c), c.Free())
		}
		long, err := p.OpenSession(nil)
		errs := []error{use(long, err)}
		for range 3 {
			s, err := p.OpenSession(nil)
			errs = append(errs, use(s, err), s.Close(), ofClass(use(s, nil), mpi.ErrSession))
		}
		errs = append(errs, p.InitWorld(), checkUsable(p.World()), ofClass(p.InitWorld(), mpi.ErrOther), use(long, nil))
		s, err := p.OpenSession(nil)
		stays, errStays := fromSet(s, "mpi://WORLD", "stays")
		world := p.World().Group()
		errs = append(errs, use(s, err), errStays, p.Finalize(), ofClass(p.World().Barrier(), mpi.ErrComm),
			use(s, nil), checkUsable(stays))
		_, err = mpi.CommFromGroup(world, "t", nil)
		errs = append(errs, ofClass(err, mpi.ErrGroup), stays.Free(), s.Close(), long.Close())
		s, err = p.OpenSession(nil)
		return errors.Join(append(errs, use(s, err), s.Close(), p.Leave(), p.Leave(), left(p))...)
	})
}

// left checks the errors of a process that has left the job.
func left(p *mpi.Process) error {
	_, err := p.OpenSession(nil)
	return ofClass(err, mpi.ErrOther)
}

// TestSessionAfterInit: after Init, an open session keeps the process in the job beyond Finalize.
func TestSessionAfterInit(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		s, err := p.OpenSession(nil)
		if err := errors.Join(err, p.Finalize()); err != nil {
			return err
		}
		c, err := fromSet(s, "mpi://WORLD", "t")
		if err != nil {
			return err
		}
		return errors.Join(checkUsable(c), c.Free(), s.Close(), left(p))
	})
}

// TestLeaveEarly: processes leave the job when they are done, and do not disturb the others.
func TestLeaveEarly(t *testing.T) {
	for range 5 {
		runSessionsOnly(t, 5, func(p *mpi.Process) error {
			return inSession(func(_ *mpi.Process, s *mpi.Session) error {
				all, err := fromSet(s, "mpi://WORLD", "all")
				if err != nil {
					return err
				}
				me := all.Rank()
				if err := errors.Join(checkUsable(all), all.Free()); err != nil || me == 1 || me == 4 {
					return err
				}
				for range 50 {
					c, err := fromSet(s, "ocean", "rest")
					if err := errors.Join(err, checkUsable(c), c.Free()); err != nil {
						return err
					}
				}
				return nil
			})(p)
		})
	}
}

// TestGone: a communicator with a process that has left the job is an error; the other processes can still create
// theirs.
func TestGone(t *testing.T) {
	runSessionsOnly(t, 5, inSession(func(p *mpi.Process, s *mpi.Session) error {
		c, err := fromSet(s, "mpi://WORLD", "all")
		if err != nil {
			return err
		}
		me := c.Rank()
		if err := errors.Join(checkUsable(c), c.Free()); err != nil || me == 1 || me == 4 {
			return err
		}
		var waiting sync.WaitGroup
		errs := make([]error, 4)
		for i := range 3 { // some wait for the goroutine that receives
			waiting.Go(func() {
				_, err := fromSet(s, "mpi://WORLD", fmt.Sprint("never ", i))
				errs[i] = ofClass(err, mpi.ErrProcFailed)
			})
		}
		rest, err := fromSet(s, "ocean", "rest")
		waiting.Wait()
		_, errs[3] = s.Group("mpi://WORLD")
		return errors.Join(append(errs, err, checkUsable(rest), rest.Free())...)
	}))
}

// TestCloseWithCommunicators: Close frees the remaining communicators with their attributes, together with the other
// ranks.
func TestCloseWithCommunicators(t *testing.T) {
	runSessionsOnly(t, 3, func(p *mpi.Process) error {
		s, err := p.OpenSession(nil)
		if err != nil {
			return err
		}
		var mu sync.Mutex
		var gone []int
		k := mpi.NewKeyval(p, nil, func(c *mpi.Comm, v int) error {
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, v)
			return checkUsable(c)
		})
		var comms []*mpi.Comm
		for i := range 4 {
			c, err := fromSet(s, "mpi://WORLD", fmt.Sprint(i))
			if err := errors.Join(err, k.Set(c, i)); err != nil {
				return err
			}
			comms = append(comms, c)
		}
		// The receive is from this rank, since another may leave before this one closes, which ends a receive from it.
		waiting, err := mpi.Irecv(comms[2], make([]int, 1), comms[2].Rank(), 0)
		errs := []error{err, s.Close(), want("attributes", nil, gone, []int{3, 2, 1, 0})}
		_, err = waiting.Wait()
		errs = append(errs, ofClass(err, mpi.ErrComm), ofClass(s.Close(), mpi.ErrSession))
		for _, c := range comms {
			errs = append(errs, ofClass(c.Barrier(), mpi.ErrComm), ofClass(c.Free(), mpi.ErrComm))
		}
		return errors.Join(errs...)
	})
}

// TestClosed: every use of a closed or nil session is an error of its class.
func TestClosed(t *testing.T) {
	runSessionsOnly(t, 1, func(p *mpi.Process) error {
		s, err := p.OpenSession(nil)
		if err != nil {
			return err
		}
		g, err := s.Group("mpi://WORLD")
		errs := []error{err, s.Close()}
		for _, s := range []*mpi.Session{s, nil} {
			_, num := s.NumPsets(nil)
			_, nth := s.NthPset(nil, 0)
			_, info := s.Info()
			_, set := s.PsetInfo("mpi://WORLD")
			_, group := s.Group("mpi://WORLD")
			for _, err := range []error{num, nth, info, set, group, s.Close()} {
				errs = append(errs, ofClass(err, mpi.ErrSession))
			}
		}
		_, err = mpi.CommFromGroup(g, "t", nil)
		return errors.Join(append(errs, ofClass(err, mpi.ErrSession), check(g.Size() == 1, "size %d", g.Size()))...)
	})
}

func TestFromGroupRefuses(t *testing.T) {
	runSessionsOnly(t, 3, inSession(func(p *mpi.Process, s *mpi.Session) error {
		all, err := s.Group("mpi://WORLD")
		if err != nil {
			return err
		}
		none, err := all.Excl(0, 1, 2)
		me := all.Rank()
		others, errOthers := all.Excl(me)
		self, errSelf := s.Group("mpi://SELF")
		other, errOpen := p.OpenSession(nil)
		foreign, errForeign := other.Group("mpi://SELF")
		if err := errors.Join(err, errOthers, errSelf, errOpen, errForeign); err != nil {
			return err
		}
		c, err := mpi.CommFromGroup(none, "t", nil)
		errs := []error{err, check(c == nil && none.Size() == 0 && none.Rank() == mpi.Undefined, "not empty")}
		for tag, g := range map[string]*mpi.Group{"t": others, "nil": nil} {
			_, err = mpi.CommFromGroup(g, tag, nil)
			errs = append(errs, ofClass(err, mpi.ErrGroup))
		}
		for _, tag := range []string{strings.Repeat("x", mpi.MaxStringTag+1), "a\x00b"} {
			_, err = mpi.CommFromGroup(all, tag, nil)
			errs = append(errs, ofClass(err, mpi.ErrArg))
		}
		for _, remote := range []*mpi.Group{all, self, none, nil, foreign} {
			_, err = mpi.IntercommFromGroups(self, remote, "t", nil)
			errs = append(errs, ofClass(err, mpi.ErrGroup))
		}
		_, err = mpi.IntercommFromGroups(others, self, "t", nil)
		errs = append(errs, ofClass(err, mpi.ErrGroup))
		_, err = self.Union(foreign)
		errs = append(errs, ofClass(err, mpi.ErrGroup), other.Close())
		c, err = mpi.CommFromGroup(all, strings.Repeat("x", mpi.MaxStringTag), nil)
		return errors.Join(append(errs, err, checkUsable(c), c.Free())...)
	}))
}

// TestStringTags: goroutines make communicators of the same processes at the same time, in different orders, and of sets that
// overlap; tags keep them apart.
func TestStringTags(t *testing.T) {
	runSessionsOnly(t, 3, inSession(func(p *mpi.Process, s *mpi.Session) error {
		all, err := s.Group("mpi://WORLD")
		if err != nil {
			return err
		}
		const n = 8
		errs := make([]error, n+1)
		var making sync.WaitGroup
		for i := range n {
			i = (i + 3*all.Rank()) % n
			making.Go(func() {
				for range 5 {
					c, err := mpi.CommFromGroup(all, fmt.Sprint("tag ", i), nil)
					if err != nil {
						errs[i] = err
						return
					}
					x := []int{i}
					err = mpi.Bcast(c, x, 0)
					errs[i] = errors.Join(errs[i], err, check(x[0] == i, "tag %d became %d", i, x[0]), checkUsable(c), c.Free())
				}
			})
		}
		making.Go(func() {
			pair, err := fromSet(s, "Pairs of 1", "tag 1")
			if all.Rank() == 0 {
				errs[n] = ofClass(err, mpi.ErrGroup)
				return
			}
			errs[n] = errors.Join(err, checkUsable(pair), pair.Free())
		})
		making.Wait()
		return errors.Join(errs...)
	}))
}

func TestGroups(t *testing.T) {
	runSessionsOnly(t, 5, inSession(func(p *mpi.Process, s *mpi.Session) error {
		all, err := s.Group("mpi://WORLD")
		if err != nil {
			return err
		}
		same := func(g *mpi.Group, err error, ranks ...int) error {
			h, errIncl := all.Incl(ranks...)
			return errors.Join(err, errIncl, check(g.Equal(h), "a group is not %v", ranks))
		}
		a, err1 := all.Incl(4, 0, 2)
		b, err2 := all.Incl(1, 2, 3, 4)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		u, errU := a.Union(b)
		i, errI := a.Intersection(b)
		d, errD := a.Difference(b)
		x, errX := a.Excl(1)
		zero, errZ := new(mpi.Group).Union(a)
		ranks, errR := a.Ranks([]int{0, 1, 2, mpi.ProcNull}, b)
		errs := []error{same(u, errU, 4, 0, 2, 1, 3), same(i, errI, 4, 2), same(d, errD, 0), same(x, errX, 4, 2),
			same(zero, errZ, 4, 0, 2),
			want("ranks", errR, ranks, []int{3, mpi.Undefined, 1, mpi.ProcNull})}
		_, err1 = all.Incl(5)
		_, err2 = all.Incl(1, 1)
		_, err3 := all.Excl(-1)
		_, err4 := a.Ranks([]int{3}, b)
		for _, err := range []error{err1, err2, err3, err4} {
			errs = append(errs, ofClass(err, mpi.ErrRank))
		}
		c, err := mpi.CommFromGroup(all, "t", nil)
		return errors.Join(append(errs, err, check(c.Group().Equal(all) && c.Group().Rank() == c.Rank(), "Group"), c.Free())...)
	}))
}
