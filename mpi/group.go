package mpi

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// group is a communicator as its collectives see it: messages in a context of their own, and memory shared by all ranks
// where there is such. It implements coll.Peer and coll.Waiter.
type group struct {
	c       *Comm
	peers   []int32 // process by rank: all of them, also of an intercommunicator
	rank    int32
	tag     int32 // of its messages
	busy    atomic.Bool
	scratch []byte
	used    int
	op      coll.Operation // of the collective under way

	call  perf.Op // the collective under way, as it is recorded
	bytes int     // of this rank
	began uint64

	tried    bool // to share memory
	flat     *coll.Flat
	seg      fabric.Segment
	sleepers *uint64 // in seg: how many ranks sleep until a word changes
}

func (g *group) init(c *Comm, peers []int32, rank int32) { g.c, g.peers, g.rank = c, peers, rank }

// begin admits one collective at a time, and none of those that an intercommunicator has not. It is recorded up to end, with what
// this rank gives or gets; what is part of another call is shown as that and not counted.
func (c *Comm) begin(as perf.Op, bytes int) error {
	if c != nil && c.local != nil {
		return c.err(as.String(), ErrComm, errInter)
	}
	return c.beginAll(as, bytes)
}

var errInter = errors.New("this takes an intracommunicator: Merge makes one of both groups")

// beginAll is begin for what all processes of an intercommunicator do together, as if they were one group.
func (c *Comm) beginAll(as perf.Op, bytes int) error {
	if err := c.usable(as.String()); err != nil {
		return err
	}
	if !c.group.busy.CompareAndSwap(false, true) {
		return c.err(as.String(), ErrComm, errors.New("another collective of this communicator is under way"))
	}
	g := &c.group
	g.used = 0
	g.call, g.bytes, g.began = as, bytes, c.e.BeginOp(as, bytes)
	if !g.tried {
		if err := g.share(); err != nil {
			c.end()
			return c.below(as.String(), err)
		}
	}
	return nil
}

func (c *Comm) end() {
	g := &c.group
	c.e.EndOp(g.call, g.bytes, g.began)
	g.call = perf.NoOp
	g.busy.Store(false)
}

// memory returns the shared memory form of a collective if it is the better one for this many bytes, or nil.
func (g *group) memory(what coll.Collective, bytes int) *coll.Flat {
	if g.flat == nil || !g.flat.Prefers(what, bytes) {
		return nil
	}
	return g.flat
}

// share sets up memory shared by all ranks, at the first collective. If any rank cannot, all go without.
func (g *group) share() error {
	g.tried = true
	n := len(g.peers)
	if n == 1 || !g.c.e.CanShareMemory() {
		return nil
	}
	peers := make([]int, n)
	for i, p := range g.peers {
		peers[i] = int(p)
	}
	slices.Sort(peers)
	bytes, _ := coll.FlatBytes(n)
	id := uint64(g.c.ctx)<<32 | uint64(peers[0]+1)
	seg, err := g.c.e.MapSegment(g.call.Within(), id, peers, bytes+sharedTail)
	var mine, all [1]byte
	if err == nil {
		g.seg = seg
		mine[0] |= mapped
	}
	if !g.c.p.place.Crowded {
		mine[0] |= roomy
	}
	band, _, _ := Band.kernel(datatype.Uint8)
	err = coll.Allreduce(g, all[:], mine[:], &coll.Operation{Kernel: band, ElemSize: 1, Commutative: true})
	g.used = 0
	if err != nil || all[0]&mapped == 0 {
		return err
	}
	g.sleepers = lastWord(seg.Bytes()[:bytes+sharedTail])
	g.flat, err = coll.NewFlat(coll.Shared{
		Mem: seg.Bytes()[:bytes], Rank: g.Rank(), Size: n, Crowded: all[0]&roomy == 0,
		Cores: runtime.NumCPU(), Wait: g,
	})
	return err
}

// What the ranks agree on before they share memory: it is there at every rank, and every rank has a processor. Each may
// know better than another, and the collectives take different ways, so it has to be the same for all.
const (
	mapped = 1 << iota
	roomy
)

// sharedTail is the memory behind that of the collectives; its last word counts sleepers.
const sharedTail = 128

// closeFlat gives the shared memory back.
func (c *Comm) closeFlat() error {
	if c.group.seg == nil {
		return nil
	}
	c.group.flat = nil
	seg := c.group.seg
	c.group.seg = nil
	return seg.Close()
}

// Rank is the rank of this process.
func (g *group) Rank() int { return int(g.rank) }

// Size is the number of ranks.
func (g *group) Size() int { return len(g.peers) }

func (g *group) to(dst int) proto.Route {
	return proto.Route{Context: g.c.ctx | collective, Peer: g.peers[dst], Match: proto.Match{Rank: g.rank, Tag: g.tag},
		Op: g.call.Within()}
}

func (g *group) from(src int) proto.Route {
	return proto.Route{Context: g.c.ctx | collective, Peer: g.peers[src], Match: proto.Match{Rank: int32(src), Tag: g.tag},
		Op: g.call.Within()}
}

// Send sends b.
func (g *group) Send(dst int, b []byte) error { return g.c.e.Send(g.to(dst), b, proto.Standard) }

// Recv receives b.
func (g *group) Recv(src int, b []byte) error {
	_, err := g.c.e.Recv(g.from(src), b)
	return err
}

// Sendrecv does both at the same time.
func (g *group) Sendrecv(dst int, s []byte, src int, r []byte) error {
	h := g.c.e.Irecv(g.from(src), r)
	if err := g.c.e.Send(g.to(dst), s, proto.Standard); err != nil {
		g.c.takeBack(h)
		return err
	}
	_, err := g.c.e.Wait(h)
	return err
}

// Isend begins to send.
func (g *group) Isend(dst int, b []byte) (coll.Handle, error) {
	h, err := g.c.e.Isend(g.to(dst), b, proto.Standard)
	return handleOf(h), err
}

// Irecv begins to receive.
func (g *group) Irecv(src int, b []byte) (coll.Handle, error) {
	return handleOf(g.c.e.Irecv(g.from(src), b)), nil
}

func handleOf(h proto.Handle) coll.Handle {
	if h.Zero() {
		return coll.Handle{}
	}
	a, b := h.Encode()
	return coll.Handle{A: a, B: b}
}

// Waitall waits for all.
func (g *group) Waitall(hs []coll.Handle) (first error) {
	for _, h := range hs {
		if _, err := g.c.e.Wait(g.c.e.DecodeHandle(h.A, h.B)); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Scratch lends memory until the next collective.
func (g *group) Scratch(n int) []byte {
	if len(g.scratch)-g.used < n {
		// What was lent stays where it is; from the next collective on one piece is enough.
		g.scratch = make([]byte, max(n, 2*len(g.scratch), 4096))
		g.used = 0
	}
	b := g.scratch[g.used : g.used+n : g.used+n]
	g.used = min((g.used+n+15)&^15, len(g.scratch))
	return b
}

// WaitAtLeast waits for a word of the shared memory.
func (g *group) WaitAtLeast(w *uint64, v uint64) error {
	return g.c.e.WaitAtLeast(g.call.Within(), g.bytes, w, v, g.sleepers)
}

// Publish stores a word of the shared memory and wakes who sleeps for it.
func (g *group) Publish(w *uint64, v uint64) {
	atomic.StoreUint64(w, v) // before sleepers are looked at, as WaitAtLeast asks
	if atomic.LoadUint64(g.sleepers) != 0 {
		for i, p := range g.peers {
			if i != int(g.rank) {
				g.c.e.WakePeer(int(p))
			}
		}
	}
}

// reduction prepares the operation of a reduction on elements of a kind.
func (c *Comm) reduction(op string, k datatype.Kind, o Op) error {
	if o == nil {
		return c.err(op, ErrOp, errors.New("the operation is nil"))
	}
	f, commutative, ok := o.kernel(k)
	if !ok {
		return c.err(op, ErrOp, fmt.Errorf("%v is not defined on %v", o, k))
	}
	c.group.op = coll.Operation{Kernel: f, ElemSize: k.Size(), Commutative: commutative}
	return nil
}

// rooted checks a root.
func (c *Comm) rooted(op string, root int) error {
	if uint(root) >= uint(len(c.peers)) {
		return c.err(op, ErrRoot, fmt.Errorf("root %d of %d", root, len(c.peers)))
	}
	return nil
}

// apart refuses buffers that share memory without beginning at the same element with the same length.
func (c *Comm) apart(op string, dst, src []byte) error {
	if overlap(dst, src) && !(same(dst, src) && len(dst) == len(src)) {
		return c.err(op, ErrBuffer, errors.New("dst and src overlap in part"))
	}
	return nil
}
