package mpi_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/mpi"
)

// withIntercomm creates an intercommunicator of the sets air and ocean among five ranks: air has 1 and 4, ocean 0, 2
// and 3.
func withIntercomm(t *testing.T, f func(p *mpi.Process, s *mpi.Session, c *mpi.Comm) error) {
	t.Helper()
	runSessionsOnly(t, 5, inSession(func(p *mpi.Process, s *mpi.Session) error {
		local, err1 := s.Group("air")
		remote, err2 := s.Group("ocean")
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if local.Rank() == mpi.Undefined {
			local, remote = remote, local
		}
		c, err := mpi.IntercommFromGroups(local, remote, "air and sea", nil)
		if err != nil {
			return err
		}
		same := c.Group().Equal(local) && c.RemoteGroup().Equal(remote)
		errs := []error{check(c.Remote() && same, "groups"), check(c.Size() == local.Size() && c.RemoteSize() == remote.Size() &&
			c.Rank() == local.Rank(), "rank %d of %d, remote %d", c.Rank(), c.Size(), c.RemoteSize())}
		return errors.Join(append(errs, f(p, s, c))...)
	}))
}

// exchange sends from every rank to every rank of the other group.
func exchange(c *mpi.Comm, base int) error {
	me := base + 10*c.Size() + c.Rank()
	for r := range c.RemoteSize() {
		if err := mpi.Send(c, []int{me}, r, 7); err != nil {
			return err
		}
	}
	var errs []error
	for r := range c.RemoteSize() {
		x := []int{0}
		src := r
		if r%2 == 1 {
			src = mpi.AnySource // which is only that one: the lower have been received, the higher may not come first
			if r != c.RemoteSize()-1 {
				src = r
			}
		}
		st, err := mpi.Recv(c, x, src, 7)
		want := base + 10*c.RemoteSize() + st.Source
		errs = append(errs, err, check(x[0] == want, "got %d from %d, want %d", x[0], st.Source, want))
	}
	return errors.Join(errs...)
}

func TestIntercomm(t *testing.T) {
	withIntercomm(t, func(p *mpi.Process, s *mpi.Session, c *mpi.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		i, r, err := d.Idup()
		if err != nil {
			return err
		}
		_, err = r.Wait()
		k := mpi.NewKeyval[int](p, nil, nil)
		errs := []error{err, exchange(c, 100), exchange(d, 200), exchange(i, 300),
			c.Barrier(), d.Free(), exchange(i, 400), i.Disconnect(),
			k.Set(c, 5), holds(k, c, 5)}
		return errors.Join(append(errs, c.Free(), ofClass(c.Barrier(), mpi.ErrComm), ofClass(exchange(c, 0), mpi.ErrComm))...)
	})
}

// TestIntercommStays: communicators that exist when the session is closed are freed with it.
func TestIntercommStays(t *testing.T) {
	withIntercomm(t, func(_ *mpi.Process, _ *mpi.Session, c *mpi.Comm) error { return exchange(c, 0) })
}

func TestIntercommRefuses(t *testing.T) {
	withIntercomm(t, func(_ *mpi.Process, s *mpi.Session, c *mpi.Comm) error {
		x := make([]int, 8)
		errs := []error{ofClass(mpi.Send(c, x, c.RemoteSize(), 0), mpi.ErrRank)}
		for _, err := range []error{mpi.Scan(c, x, x, mpi.Sum), mpi.Exscan(c, x, x, mpi.Sum)} {
			errs = append(errs, ofClass(err, mpi.ErrComm))
		}
		for _, err := range []error{mpi.Allreduce(c, x, x, mpi.Sum), mpi.Allgather(c, x, x), mpi.Alltoall(c, x, x)} {
			errs = append(errs, ofClass(err, mpi.ErrBuffer))
		}
		for _, root := range []int{c.RemoteSize(), -1, mpi.Undefined} {
			for _, err := range []error{mpi.Bcast(c, x, root), mpi.Reduce(c, x, x, mpi.Sum, root), mpi.Gather(c, x, x, root),
				mpi.Scatter(c, x, x, root)} {
				errs = append(errs, ofClass(err, mpi.ErrRoot))
			}
		}
		self, err := fromSet(s, "mpi://SELF", "t")
		if err != nil {
			return err
		}
		_, merged := self.Merge(false)
		errs = append(errs, check(!self.Remote() && self.RemoteSize() == 0 && self.RemoteGroup().Size() == 0, "an intracommunicator"))
		return errors.Join(append(errs, ofClass(merged, mpi.ErrComm), exchange(c, 1), c.Barrier())...)
	})
}

func TestMerge(t *testing.T) {
	for _, high := range []struct {
		air, ocean bool
		want       []int // World ranks, nil for either
	}{{true, false, []int{0, 2, 3, 1, 4}}, {false, true, []int{1, 4, 0, 2, 3}}, {true, true, nil}, {false, false, nil}} {
		t.Run(fmt.Sprint(high.air, high.ocean), func(t *testing.T) {
			withIntercomm(t, func(p *mpi.Process, s *mpi.Session, c *mpi.Comm) error {
				mine := high.ocean
				if c.Size() == 2 {
					mine = high.air
				}
				m, err := c.Merge(mine)
				if err != nil {
					return err
				}
				all, err := s.Group("mpi://WORLD")
				errs := []error{err, checkUsable(m), exchange(c, 1)}
				if high.want != nil {
					want, err := all.Incl(high.want...)
					errs = append(errs, err, check(m.Group().Equal(want), "another order"))
				}
				return errors.Join(append(errs, m.Free())...)
			})
		})
	}
	withIntercomm(t, func(_ *mpi.Process, _ *mpi.Session, c *mpi.Comm) error {
		_, err := c.Merge(c.Rank() == 0)
		return errors.Join(ofClass(err, mpi.ErrArg), exchange(c, 1))
	})
}

// TestIntercommTags creates two intercommunicators of the same groups concurrently.
func TestIntercommTags(t *testing.T) {
	withIntercomm(t, func(_ *mpi.Process, _ *mpi.Session, c *mpi.Comm) error {
		errs := make([]error, 2)
		var both sync.WaitGroup
		for i := range errs {
			both.Go(func() {
				d, err := mpi.IntercommFromGroups(c.Group(), c.RemoteGroup(), fmt.Sprint(i), nil)
				if errs[i] = err; err == nil {
					errs[i] = errors.Join(exchange(d, 1000*i), d.Free())
				}
			})
		}
		both.Wait()
		return errors.Join(errs...)
	})
}
