package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// creations are the calls that create communicators, each with what must exist before it.
var creations = map[string]func(p *mpi.Process) (func() (*mpi.Comm, error), error){
	"Create": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		return func() (*mpi.Comm, error) { return p.World().Create(p.World().Group()) }, nil
	},
	"CreateGroup": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		return func() (*mpi.Comm, error) { return p.World().CreateGroup(p.World().Group(), 3) }, nil
	},
	"CreateIntercomm": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		half, err := p.World().Split(p.World().Rank()%2, 0)
		return func() (*mpi.Comm, error) { return half.CreateIntercomm(0, p.World(), 1-p.World().Rank()%2, 0) }, err
	},
	"Idup": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		return func() (*mpi.Comm, error) {
			c, r, err := p.World().Idup()
			if err != nil {
				return nil, err
			}
			_, err = r.Wait()
			return c, err
		}, nil
	},
	"CommFromGroup": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		return func() (*mpi.Comm, error) { return mpi.CommFromGroup(p.World().Group(), "death", nil) }, nil
	},
	"IntercommFromGroups": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		low, err := p.World().Group().Incl(0, 1)
		if err != nil {
			return nil, err
		}
		high, err := p.World().Group().Excl(0, 1)
		if p.World().Rank() > 1 {
			low, high = high, low
		}
		return func() (*mpi.Comm, error) { return mpi.IntercommFromGroups(low, high, "death", nil) }, err
	},
	"CartCreate": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		return func() (*mpi.Comm, error) { return p.World().CartCreate([]int{2, 2}, []bool{true, true}, mpi.Reorder) }, nil
	},
	"GraphCreate": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		return func() (*mpi.Comm, error) {
			return p.World().GraphCreate([][]int{{1}, {0}, {3}, {2}}, mpi.Reorder)
		}, nil
	},
	"DistGraphCreate": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		me := p.World().Rank()
		return func() (*mpi.Comm, error) {
			return p.World().DistGraphCreate([]mpi.Edge{{From: me, To: (me + 1) % 4}}, false, nil, mpi.Reorder)
		}, nil
	},
	"Dup": func(p *mpi.Process) (func() (*mpi.Comm, error), error) { return p.World().Dup, nil },
	"Merge": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		c, err := bridgeOfTwo(p)
		return func() (*mpi.Comm, error) { return c.Merge(p.World().Rank()%2 == 0) }, err
	},
	"Split of an intercommunicator": func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
		c, err := bridgeOfTwo(p)
		return func() (*mpi.Comm, error) { return c.Split(0, 0) }, err
	},
}

// bridgeOfTwo connects the even and the odd ranks of World.
func bridgeOfTwo(p *mpi.Process) (*mpi.Comm, error) {
	half, err := p.World().Split(p.World().Rank()%2, 0)
	if err != nil {
		return nil, err
	}
	return half.CreateIntercomm(0, p.World(), 1-p.World().Rank()%2, 0)
}

// TestDeathInCreation: a rank dies before each of the messages that it sends to create a communicator. The others get the
// communicator or ErrProcFailed, and none waits for ever. Unless IBRUN_SOAK is set, only some ranks die: see dyingRanks.
func TestDeathInCreation(t *testing.T) {
	const n = 4
	for name, prepare := range creations {
		t.Run(name, func(t *testing.T) {
			for _, victim := range dyingRanks(n, 0) {
				at := 0
				for dieAt(t, n, victim, at, prepare) {
					at++
				}
				if at == 0 {
					t.Errorf("rank %d sends no message", victim)
				}
			}
		})
	}
}

// dyingRanks returns the ranks of n of which each dies in turn: the root, and a rank that in trees is both a parent and a child.
// With IBRUN_SOAK=1 it returns all.
func dyingRanks(n, root int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return soaktest.Choose(all, []int{root, (root + 2) % n})
}

// dieAt runs a creation in which a rank dies before it sends its next message after the first at ones. It reports false if the
// rank sends no more than these.
func dieAt(t *testing.T, n, victim, at int, prepare func(p *mpi.Process) (func() (*mpi.Comm, error), error)) bool {
	return dieAtOn(t, mpitest.Options{}, n, victim, at, prepare)
}

// dieAtOn is dieAt in a world with options, in which the ranks of several nodes share the memory of their nodes.
func dieAtOn(t *testing.T, o mpitest.Options, n, victim, at int,
	prepare func(p *mpi.Process) (func() (*mpi.Comm, error), error),
) bool {
	t.Helper()
	dying := &dyingRank{rank: victim, size: n, shares: o.Machine != nil}
	dying.left.Store(neverDies)
	failures := &recorder{TB: t}
	var created atomic.Int32
	o.Wrap, o.Unchecked = dying.wrap, true
	mpitest.RunWith(failures, n, o, func(p *mpi.Process) error {
		create, err := prepare(p)
		if err = errors.Join(err, p.World().Barrier()); err != nil {
			return err
		}
		me := p.World().Rank()
		if me == victim {
			dying.left.Store(int32(at))
		}
		_, err = create()
		switch {
		case me == victim && dying.left.Load() < 0:
			return errors.Join(errKilled, err)
		case me == victim:
			dying.left.Store(neverDies)
		case err == nil:
			created.Add(1)
		case !errors.Is(err, mpi.ErrProcFailed):
			t.Errorf("rank %d dies at message %d: rank %d got %v", victim, at, me, err)
		}
		return err
	})
	if dying.left.Load() >= 0 {
		if len(failures.all) != 0 || int(created.Load()) != n-1 {
			t.Errorf("%d communicators without a death: %v", created.Load(), failures.all)
		}
		return false
	}
	for _, err := range failures.all { // a deadlock is another failure
		if !errors.Is(err, errKilled) && !errors.Is(err, mpi.ErrProcFailed) {
			t.Errorf("rank %d dies at message %d: %v", victim, at, err)
		}
	}
	return true
}

var errKilled = errors.New("this rank was killed")

// recorder keeps the failures of a world instead of failing the test.
type recorder struct {
	testing.TB
	all []error
}

// Error keeps a failure.
func (r *recorder) Error(args ...any) {
	for _, x := range args {
		err, ok := x.(error)
		if !ok {
			err = fmt.Errorf("%v", x)
		}
		r.all = append(r.all, err)
	}
}

// neverDies is more messages than any test sends.
const neverDies = 1 << 30

// dyingRank is a rank that loses all its peers instead of sending a message.
type dyingRank struct {
	fabric.Transport
	rank, size int
	shares     bool         // the ranks may share memory
	left       atomic.Int32 // messages until then; negative: it has died
	domain     *hook.Domain
}

func (d *dyingRank) wrap(t fabric.Transport) fabric.Transport {
	return hook.Wrap(dyingTransport{t, d}, hook.Options{Share: d.shares, OnOpen: func(self int, domain *hook.Domain) {
		if self == d.rank {
			d.domain = domain
		}
	}})
}

// mayDie counts a message, and reports whether the rank is dead.
func (d *dyingRank) mayDie() bool {
	left := d.left.Add(-1)
	if left == -1 {
		for peer := range d.size {
			if peer != d.rank {
				d.domain.Down(peer, errKilled)
			}
		}
	}
	return left < 0
}

type dyingTransport struct {
	fabric.Transport
	of *dyingRank
}

func (t dyingTransport) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	d, err := t.Transport.Open(ctx, c)
	if err == nil && c.Self == t.of.rank {
		if s, ok := d.(fabric.SharedMemory); ok && t.of.shares {
			return sharingDyingDomain{dyingDomain{d, t.of}, s}, nil
		}
		d = dyingDomain{d, t.of}
	}
	return d, err
}

type dyingDomain struct {
	fabric.Domain
	of *dyingRank
}

// sharingDyingDomain is a dyingDomain with shared memory. To wake a peer counts as a message.
type sharingDyingDomain struct {
	dyingDomain
	fabric.SharedMemory
}

func (d sharingDyingDomain) Wake(peer int) {
	if !d.of.mayDie() {
		d.SharedMemory.Wake(peer)
	}
}

func (d dyingDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	e, err := d.Domain.Connect(peer, addr)
	if err == nil {
		e = dyingEndpoint{e, d.of}
	}
	return e, err
}

func (d dyingDomain) Route(peer int) fabric.Domain { return d }

func (d dyingDomain) Routes() []fabric.Domain { return []fabric.Domain{d} }

type dyingEndpoint struct {
	fabric.Endpoint
	of *dyingRank
}

func (e dyingEndpoint) Send(header, payload []byte) error {
	if e.of.mayDie() {
		return nil // lost with the process
	}
	err := e.Endpoint.Send(header, payload)
	if err != nil {
		e.of.left.Add(1) // not sent
	}
	return err
}
