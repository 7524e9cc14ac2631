package core

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/coll"
)

// Root is the root that the root of a collective on an intercommunicator gives; the others of its group give ProcNull, and the
// remote group gives the rank of the root. It has the value of the MPI-5.0 ABI.
const Root = -4

// interCall is a collective on an intercommunicator. The first rank of each group is its leader: where many blocks or a result go
// to the other group, the leaders exchange them.
type interCall struct {
	g             coll.Peer // all ranks: first those of the group that is first
	operation     *coll.Operation
	own           groupPeer // the local group
	local, remote side
}

// groupPeer is the local group of an intercommunicator as package coll sees a communicator.
type groupPeer struct {
	coll.Peer
	side
}

func (p *groupPeer) Rank() int { return p.Peer.Rank() - p.first }
func (p *groupPeer) Size() int { return p.n }

func (p *groupPeer) Send(dst int, b []byte) error { return p.Peer.Send(dst+p.first, b) }
func (p *groupPeer) Recv(src int, b []byte) error { return p.Peer.Recv(src+p.first, b) }

func (p *groupPeer) Sendrecv(dst int, s []byte, src int, r []byte) error {
	return p.Peer.Sendrecv(dst+p.first, s, src+p.first, r)
}

func (p *groupPeer) Isend(dst int, b []byte) (coll.Handle, error) {
	return p.Peer.Isend(dst+p.first, b)
}

func (p *groupPeer) Irecv(src int, b []byte) (coll.Handle, error) {
	return p.Peer.Irecv(src+p.first, b)
}

// isInter reports whether the communicator is an intercommunicator, also if it is nil.
func (c *Comm) isInter() bool { return c != nil && c.localGroup != nil }

// inter runs a collective on an intercommunicator, or starts it: check checks the arguments and sets the operation, and then run
// exchanges messages. If that fails, no later collective succeeds, because the ranks may have stopped at different messages, and
// no rank waits for another for ever.
func (c *Comm) inter(how collMode, bytes int, check func(*coll.Operation) error, run func(x *interCall) error) error {
	call := how.call
	if how.start != Blocking {
		return c.startCollective(how, bytes, check, func() *collCall { return &collCall{Call: call} },
			func(p coll.Peer, o *coll.Operation) error { return run(c.newInterCall(p, o)) })
	}
	if err := c.beginCollective(call, bytes); err != nil {
		return err
	}
	defer c.endCollective()
	err := check(&c.coll.operation)
	if c.checks {
		err = c.compareCall(&collCall{Call: call, Idups: c.idupSeq.Load()}, err)
	}
	if err != nil {
		return err
	}
	if err := run(c.newInterCall(&c.coll, &c.coll.operation)); err != nil {
		c.coll.fail(err)
		return c.wrapError(call.String(), err)
	}
	return nil
}

// newInterCall returns a call whose messages p sends, with the operation o.
func (c *Comm) newInterCall(p coll.Peer, o *coll.Operation) *interCall {
	x := &interCall{g: p, operation: o}
	x.local, x.remote = c.sides()
	x.own = groupPeer{p, x.local}
	return x
}

// isLeader reports whether this rank is the leader of its group.
func (x *interCall) isLeader() bool { return x.own.Rank() == 0 }

// leaderScratch returns n bytes at the leader, and nothing at other ranks.
func (x *interCall) leaderScratch(n int) []byte {
	if !x.isLeader() {
		return nil
	}
	return x.g.Scratch(n)
}

// swap exchanges s of the leader for r of the other leader, and copies r to all ranks of the group.
func (x *interCall) swap(s, r []byte) error {
	if x.isLeader() {
		if err := x.g.Sendrecv(x.remote.first, s, x.remote.first, r); err != nil {
			return err
		}
	}
	return coll.Bcast(&x.own, r, 0)
}

// pairwise sends a block to each rank of the other group and receives one from each; nil functions mean that nothing is sent or
// received.
func (x *interCall) pairwise(send, recv func(rank int) []byte) (err error) {
	var hs []coll.Handle
	add := func(h coll.Handle, failed error) {
		if hs = append(hs, h); failed != nil && err == nil {
			err = failed
		}
	}
	for r := range x.remote.n {
		if recv != nil {
			add(x.g.Irecv(x.remote.first+r, recv(r)))
		}
	}
	for r := range x.remote.n {
		if send != nil && err == nil {
			add(x.g.Isend(x.remote.first+r, send(r)))
		}
	}
	if err != nil {
		return err
	}
	return x.g.Waitall(hs)
}

// block returns the block of a rank in a buffer.
func block(b []byte, at coll.Layout, rank int) []byte {
	return b[at.Displs[rank]*at.Elem:][:at.Counts[rank]*at.Elem]
}

// rooted runs f at the root, and others at the ranks of the other group with the root's position; the rest of the root's group
// does nothing.
func (x *interCall) rooted(root int, f func() error, others func(root int) error) error {
	switch root {
	case Root:
		return f()
	case ProcNull:
		return nil
	}
	return others(x.remote.first + root)
}

// checkInterRoot returns an error unless root is Root, ProcNull or a rank of the other group.
func (c *Comm) checkInterRoot(op string, root int) error {
	if root == Root || root == ProcNull {
		return nil
	}
	return c.checkRoot(op, root)
}

// checkApart returns an error for buffers that share memory: on an intercommunicator no collective is in place.
func (c *Comm) checkApart(op string, dst, src []byte) error {
	if overlap(dst, src) {
		return c.newError(op, ErrBuffer, errors.New("dst and src overlap, but there is no collective in place on an intercommunicator"))
	}
	return nil
}

func (c *Comm) interBcast(how collMode, b []byte, root int) error {
	check := func(*coll.Operation) error { return c.checkInterRoot(how.name(), root) }
	return c.inter(how, len(b), check, func(x *interCall) error {
		return x.rooted(root, func() error { return x.g.Send(x.remote.first, b) }, func(root int) error {
			if x.isLeader() {
				if err := x.g.Recv(root, b); err != nil {
					return err
				}
			}
			return coll.Bcast(&x.own, b, 0)
		})
	})
}

func (c *Comm) interGather(how collMode, dst, src []byte, k Elements, root int) error {
	op := how.name()
	check := func(*coll.Operation) error {
		err := c.checkInterRoot(op, root)
		if err == nil && root == Root {
			err = c.checkDivisible(op, dst, k.Size())
		}
		return err
	}
	return c.inter(how, len(src), check, func(x *interCall) error {
		return x.rooted(root, func() error { return x.g.Recv(x.remote.first, dst) }, func(root int) error {
			all := x.leaderScratch(len(src) * x.local.n)
			if err := coll.Gather(&x.own, all, src, 0); err != nil || !x.isLeader() {
				return err
			}
			return x.g.Send(root, all)
		})
	})
}

func (c *Comm) interScatter(how collMode, dst, src []byte, k Elements, root int) error {
	op := how.name()
	check := func(*coll.Operation) error {
		err := c.checkInterRoot(op, root)
		if err == nil && root == Root {
			err = c.checkDivisible(op, src, k.Size())
		}
		return err
	}
	return c.inter(how, len(dst), check, func(x *interCall) error {
		return x.rooted(root, func() error { return x.g.Send(x.remote.first, src) }, func(root int) error {
			all := x.leaderScratch(len(dst) * x.local.n)
			if x.isLeader() {
				if err := x.g.Recv(root, all); err != nil {
					return err
				}
			}
			return coll.Scatter(&x.own, dst, all, 0)
		})
	})
}

// interLayout checks the blocks of the root, if this rank is the root.
func (c *Comm) interLayout(op string, at *coll.Layout, b []byte, counts, displs []int, k Elements, root int) func(
	*coll.Operation) error {
	return func(*coll.Operation) error {
		err := c.checkInterRoot(op, root)
		if err == nil && root == Root {
			*at, err = c.newLayout(op, b, counts, displs, k.Size())
		}
		return err
	}
}

func (c *Comm) interGatherv(how collMode, dst []byte, counts, displs []int, src []byte, k Elements, root int) error {
	var at coll.Layout
	check := c.interLayout(how.name(), &at, dst, counts, displs, k, root)
	return c.inter(how, len(src), check, func(x *interCall) error {
		return x.rooted(root, func() error {
			return x.pairwise(nil, func(r int) []byte { return block(dst, at, r) })
		}, func(root int) error { return x.g.Send(root, src) })
	})
}

func (c *Comm) interScatterv(how collMode, dst, src []byte, counts, displs []int, k Elements, root int) error {
	var at coll.Layout
	check := c.interLayout(how.name(), &at, src, counts, displs, k, root)
	return c.inter(how, len(dst), check, func(x *interCall) error {
		return x.rooted(root, func() error {
			return x.pairwise(func(r int) []byte { return block(src, at, r) }, nil)
		}, func(root int) error { return x.g.Recv(root, dst) })
	})
}

func (c *Comm) interReduce(how collMode, dst, src []byte, k Elements, o Op, root int) error {
	op := how.name()
	check := func(operation *coll.Operation) error {
		err := c.checkInterRoot(op, root)
		if err == nil {
			err = c.operationOf(operation, op, k, o)
		}
		return err
	}
	return c.inter(how, len(src), check, func(x *interCall) error {
		return x.rooted(root, func() error { return x.g.Recv(x.remote.first, dst) }, func(root int) error {
			result := x.leaderScratch(len(src))
			if err := coll.Reduce(&x.own, result, src, x.operation, 0); err != nil || !x.isLeader() {
				return err
			}
			return x.g.Send(root, result)
		})
	})
}

func (c *Comm) interAllreduce(how collMode, dst, src []byte, k Elements, o Op) error {
	op := how.name()
	check := func(operation *coll.Operation) error {
		err := c.checkApart(op, dst, src)
		if err == nil {
			err = c.checkSameSize(op, dst, src)
		}
		if err == nil {
			err = c.operationOf(operation, op, k, o)
		}
		return err
	}
	return c.inter(how, len(src), check, func(x *interCall) error {
		result := x.leaderScratch(len(src))
		if err := coll.Reduce(&x.own, result, src, x.operation, 0); err != nil {
			return err
		}
		return x.swap(result, dst)
	})
}

func (c *Comm) interReduceScatter(how collMode, dst, src []byte, counts []int, k Elements, o Op) error {
	op := how.name()
	at := coll.Layout{Counts: counts, Elem: k.Size()}
	check := func(operation *coll.Operation) error {
		if len(counts) != c.Size() {
			return c.newError(op, ErrCount, fmt.Errorf("got %d counts; want one for each of the %d ranks of this group",
				len(counts), c.Size()))
		}
		left := len(src) / k.Size()
		for i, n := range counts {
			if n < 0 || n > left {
				return c.newError(op, ErrCount, fmt.Errorf("count %d of rank %d is negative, or the sum is above that of src", n, i))
			}
			at.Displs = append(at.Displs, len(src)/k.Size()-left)
			left -= n
		}
		if mine := counts[c.rank]; left != 0 || len(dst)/k.Size() < mine {
			return c.newError(op, ErrCount, fmt.Errorf("src has %d elements more than the sum of counts, and dst has %d of %d",
				left, len(dst)/k.Size(), mine))
		}
		if err := c.checkApart(op, dst, src); err != nil {
			return err
		}
		return c.operationOf(operation, op, k, o)
	}
	return c.inter(how, len(src), check, func(x *interCall) error {
		mine, theirs := x.leaderScratch(len(src)), x.leaderScratch(len(src))
		if err := coll.Reduce(&x.own, mine, src, x.operation, 0); err != nil {
			return err
		}
		if x.isLeader() {
			if err := x.g.Sendrecv(x.remote.first, mine, x.remote.first, theirs); err != nil {
				return err
			}
		}
		return coll.Scatterv(&x.own, dst[:counts[c.rank]*k.Size()], theirs, at, 0)
	})
}

func (c *Comm) interAllgather(how collMode, dst, src []byte, k Elements) error {
	op := how.name()
	check := func(*coll.Operation) error {
		if err := c.checkApart(op, dst, src); err != nil {
			return err
		}
		return c.checkDivisible(op, dst, k.Size())
	}
	return c.inter(how, len(src), check, func(x *interCall) error {
		all := x.leaderScratch(len(src) * x.local.n)
		if err := coll.Gather(&x.own, all, src, 0); err != nil {
			return err
		}
		return x.swap(all, dst)
	})
}

func (c *Comm) interAllgatherv(how collMode, dst []byte, counts, displs []int, src []byte, k Elements) error {
	op := how.name()
	var at coll.Layout
	check := func(*coll.Operation) (err error) {
		if err = c.checkApart(op, dst, src); err == nil {
			at, err = c.newLayout(op, dst, counts, displs, k.Size())
		}
		return err
	}
	return c.inter(how, len(src), check, func(x *interCall) error {
		return x.pairwise(func(int) []byte { return src }, func(r int) []byte { return block(dst, at, r) })
	})
}

func (c *Comm) interAlltoall(how collMode, dst, src []byte, k Elements) error {
	op := how.name()
	check := func(*coll.Operation) error {
		err := c.checkApart(op, dst, src)
		if err == nil {
			err = c.checkDivisible(op, src, k.Size())
		}
		if err == nil {
			err = c.checkDivisible(op, dst, k.Size())
		}
		return err
	}
	return c.inter(how, len(src), check, func(x *interCall) error {
		n, m := len(src)/x.remote.n, len(dst)/x.remote.n
		return x.pairwise(func(r int) []byte { return src[r*n:][:n] }, func(r int) []byte { return dst[r*m:][:m] })
	})
}

func (c *Comm) interAlltoallv(how collMode, dst []byte, rcounts, rdispls []int, src []byte, scounts, sdispls []int,
	k Elements,
) error {
	op := how.name()
	var to, from coll.Layout
	check := func(*coll.Operation) (err error) {
		if err = c.checkApart(op, dst, src); err != nil {
			return err
		}
		if to, err = c.newLayout(op, dst, rcounts, rdispls, k.Size()); err != nil {
			return err
		}
		from, err = c.newLayout(op, src, scounts, sdispls, k.Size())
		return err
	}
	return c.inter(how, len(src), check, func(x *interCall) error {
		return x.pairwise(func(r int) []byte { return block(src, from, r) }, func(r int) []byte { return block(dst, to, r) })
	})
}
