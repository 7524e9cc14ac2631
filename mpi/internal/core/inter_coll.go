package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Root is the root that the root of a collective on an intercommunicator gives; the others of its
// group give ProcNull, and the remote group gives the rank of the root. It has the value of the
// MPI-5.0 ABI.
const Root = -4

// interCall is a collective on an intercommunicator. The first rank of each group is its leader:
// where many blocks or a result go to the other group, the leaders exchange them.
type interCall struct {
	g             coll.Peer // all ranks: first those of the group that is first
	own           groupPeer // the local group
	local, remote side
}

// groupPeer is the local group of an intercommunicator as package coll sees a communicator. The
// ranks of a group follow each other, so a rank of the group is one of all ranks less that of the
// first. The Levels of Peer are nil, since an intercommunicator has none: see collState.findLevels.
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

// newInterCall returns a call whose messages p sends.
func (cs *Collectives) newInterCall(p coll.Peer) *interCall {
	y := &interCall{g: p}
	y.local, y.remote = cs.sides()
	y.own = groupPeer{p, y.local}
	return y
}

// isLeader reports whether this rank is the leader of its group.
func (y *interCall) isLeader() bool { return y.own.Rank() == 0 }

// leaderScratch returns n bytes at the leader, and nothing at other ranks: these only send to the
// leader, or receive from it, what passes between the groups.
func (y *interCall) leaderScratch(n int) []byte {
	if !y.isLeader() {
		return nil
	}
	return y.g.Scratch(n)
}

// swap exchanges s of the leader for r of the other leader, and copies r to all ranks of the group.
// One pair of messages passes between the groups, however many ranks they have.
func (y *interCall) swap(s, r []byte) error {
	if y.isLeader() {
		if err := y.g.Sendrecv(y.remote.first, s, y.remote.first, r); err != nil {
			return err
		}
	}
	return coll.Bcast(&y.own, r, 0)
}

// pairwise sends a block to each rank of the other group and receives one from each; nil functions
// mean that nothing is sent or received. It is for collectives in which each pair of ranks has data
// of its own, and for blocks of different lengths: a rank does not know those of the ranks of its
// own group, so no leader could gather or divide the blocks. Receives are started first, so that
// messages need not wait for a buffer.
func (y *interCall) pairwise(send, recv func(rank int) []byte) (err error) {
	var hs []coll.Handle
	add := func(h coll.Handle, failed error) {
		if failed == nil {
			hs = append(hs, h)
		} else if err == nil {
			err = failed
		}
	}
	for r := range y.remote.n {
		if recv != nil {
			add(y.g.Irecv(y.remote.first+r, recv(r)))
		}
	}
	for r := range y.remote.n {
		if send != nil && err == nil {
			add(y.g.Isend(y.remote.first+r, send(r)))
		}
	}
	if err != nil {
		y.g.Cancel(hs) // otherwise a late message would be stored in the buffer of the program
		return err
	}
	return y.g.Waitall(hs)
}

// block returns the block of a rank in a buffer.
func block(b []byte, at coll.Layout, rank int) []byte {
	return b[at.Displs[rank]*at.Elem:][:at.Counts[rank]*at.Elem]
}

// runInter exchanges the data of a collective between the groups of an intercommunicator, with the
// messages of p. The data of each group go to the other one, and none to the group itself.
func (cs *Collectives) runInter(x *Collective, p coll.Peer, o *coll.Operation) error {
	y := cs.newInterCall(p)
	switch x.Kind {
	case perf.Bcast, perf.Gather, perf.Gatherv, perf.Scatter, perf.Scatterv, perf.Reduce:
		switch x.Root {
		case Root:
			return y.runRoot(x)
		case ProcNull: // the rest of the root's group does nothing
			return nil
		}
		return y.runOthers(x, o, y.remote.first+x.Root)
	// Each group gets the result of the other one (MPI-5.0 §6.9.6), so neither combines its own
	// data with what it receives.
	case perf.Allreduce:
		result := y.leaderScratch(len(x.Src))
		if err := coll.Reduce(&y.own, result, x.Src, o, 0); err != nil {
			return err
		}
		return y.swap(result, x.Dst)
	case perf.ReduceScatter, perf.ReduceScatterBlock:
		return y.reduceScatter(x, o, x.To.Counts[cs.comm.rank]*x.Elements.Size())
	case perf.Allgather:
		all := y.leaderScratch(len(x.Src) * y.local.n)
		if err := coll.Gather(&y.own, all, x.Src, 0); err != nil {
			return err
		}
		return y.swap(all, x.Dst)
	case perf.Allgatherv:
		return y.pairwise(func(int) []byte { return x.Src }, func(r int) []byte { return block(x.Dst, x.To, r) })
	case perf.Alltoall:
		n, m := len(x.Src)/y.remote.n, len(x.Dst)/y.remote.n
		return y.pairwise(func(r int) []byte { return x.Src[r*n:][:n] }, func(r int) []byte { return x.Dst[r*m:][:m] })
	}
	return y.pairwise(func(r int) []byte { return block(x.Src, x.From, r) }, func(r int) []byte { return block(x.Dst, x.To, r) })
}

// runRoot does the part of the root. Blocks of equal length and results are in one message from or
// to the leader of the other group.
func (y *interCall) runRoot(x *Collective) error {
	switch x.Kind {
	case perf.Bcast:
		return y.g.Send(y.remote.first, x.Dst)
	case perf.Gatherv:
		return y.pairwise(nil, func(r int) []byte { return block(x.Dst, x.To, r) })
	case perf.Scatter:
		return y.g.Send(y.remote.first, x.Src)
	case perf.Scatterv:
		return y.pairwise(func(r int) []byte { return block(x.Src, x.From, r) }, nil)
	}
	return y.g.Recv(y.remote.first, x.Dst) // Gather and Reduce
}

// runOthers does the part of a rank of the group that has no root. root is the position of the
// root.
func (y *interCall) runOthers(x *Collective, o *coll.Operation, root int) error {
	switch x.Kind {
	case perf.Bcast:
		if y.isLeader() {
			if err := y.g.Recv(root, x.Dst); err != nil {
				return err
			}
		}
		return coll.Bcast(&y.own, x.Dst, 0)
	case perf.Gatherv: // only the root knows the lengths of the blocks; see pairwise
		return y.g.Send(root, x.Src)
	case perf.Scatterv:
		return y.g.Recv(root, x.Dst)
	case perf.Scatter:
		all := y.leaderScratch(len(x.Dst) * y.local.n)
		if y.isLeader() {
			if err := y.g.Recv(root, all); err != nil {
				return err
			}
		}
		return coll.Scatter(&y.own, x.Dst, all, 0)
	}
	var all []byte
	var err error
	if x.Kind == perf.Gather {
		all = y.leaderScratch(len(x.Src) * y.local.n)
		err = coll.Gather(&y.own, all, x.Src, 0)
	} else {
		all = y.leaderScratch(len(x.Src))
		err = coll.Reduce(&y.own, all, x.Src, o, 0)
	}
	if err != nil || !y.isLeader() {
		return err
	}
	return y.g.Send(root, all)
}

// reduceScatter combines the data of each group for the other one. This rank gets mine bytes. The
// counts are those of the local group. Their sum is the same in both groups, as MPI requires, so
// one length is that of both results.
func (y *interCall) reduceScatter(x *Collective, o *coll.Operation, mine int) error {
	ours, theirs := y.leaderScratch(len(x.Src)), y.leaderScratch(len(x.Src))
	if err := coll.Reduce(&y.own, ours, x.Src, o, 0); err != nil {
		return err
	}
	if y.isLeader() {
		if err := y.g.Sendrecv(y.remote.first, ours, y.remote.first, theirs); err != nil {
			return err
		}
	}
	return coll.Scatterv(&y.own, x.Dst[:mine], theirs, x.To, 0)
}
