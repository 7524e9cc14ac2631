package core

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// sharedMemory is memory that all ranks of a communicator share for their collectives.
type sharedMemory struct {
	tried bool // shareMemory has been called
	flat  *coll.Shm
	// immediate does short immediate collectives. It is set by the first blocking collective, which all ranks call before or
	// after the same immediate ones. nil: they use messages.
	immediate atomic.Pointer[coll.ShmImmediate]
	segment   fabric.Segment
	sleepers  *uint64         // in segment: number of ranks that sleep until a word changes
	mismatch  *mismatchRecord // in segment: why no collective can succeed any more
}

// shareMemory sets up the memory that all ranks share, at the first collective. If any rank cannot map it, no rank
// uses it.
func (g *collState) shareMemory() error {
	g.shm.tried = true
	n := len(g.peers)
	if n == 1 || !g.comm.engine.CanShareMemory() {
		return nil
	}
	peers := make([]int, n)
	for i, p := range g.peers {
		peers[i] = int(p)
	}
	slices.Sort(peers)
	flat, _ := coll.ShmBytes(n)
	bytes := flat + coll.ShmImmediateBytes(n)
	id := uint64(g.comm.contextID)<<32 | uint64(peers[0]+1)
	first := -1 // the process with the lowest number passes the memory to the others
	if peers[0] != int(g.peers[g.rank]) {
		first = slices.Index(g.peers, int32(peers[0]))
	}
	seg, err := g.comm.engine.MapSegment(g.watched(first), id, peers, bytes+sharedTrailerBytes)
	var mine, all [1]byte
	if err == nil {
		g.shm.segment = seg
		mine[0] |= flagMapped
	}
	if !g.comm.proc.boot.Oversubscribed {
		mine[0] |= flagDedicatedCores
	}
	band, _, _ := Band.kernel(Elements{kind: datatype.Uint8})
	err = coll.Allreduce(g, all[:], mine[:], &coll.Operation{Kernel: band, ElemSize: 1, Commutative: true})
	g.scratch.used = 0
	if err != nil || all[0]&flagMapped == 0 {
		return err
	}
	g.shm.mismatch, g.shm.sleepers = trailerWords(seg.Bytes()[bytes : bytes+sharedTrailerBytes])
	cfg := coll.ShmConfig{
		Mem: seg.Bytes()[:flat], Rank: g.Rank(), Size: n, Crowded: all[0]&flagDedicatedCores == 0,
		Cores: runtime.NumCPU(), Sync: g, Table: g.comm.proc.table,
	}
	if m, ok := seg.(fabric.PeerMemory); ok {
		cfg.Remote = &rankMemory{m, g}
	}
	if g.shm.flat, err = coll.NewShm(cfg); err != nil {
		return err
	}
	immediate, err := coll.NewShmImmediate(seg.Bytes()[flat:bytes], cfg.Rank, n, stepWords{g})
	if err == nil {
		g.shm.immediate.Store(immediate)
	}
	return err
}

// rankMemory is the memory of the ranks that share a segment.
type rankMemory struct {
	fabric.PeerMemory
	g *collState
}

// Read copies from the memory of a rank.
func (x *rankMemory) Read(rank int, process uint64, dst []byte, addr uint64) error {
	return x.error(rank, x.PeerMemory.Read(process, dst, addr))
}

// error returns the error of a copy. A copy may be the first to notice that a process has ended.
func (x *rankMemory) error(rank int, err error) error {
	if errors.Is(err, fabric.ErrPeerDown) {
		err = x.g.check(x.g.comm.engine.LostPeer(x.g.peers[rank], err))
	}
	return err
}

// Flags on which the ranks agree before they share memory: the memory is mapped, and every rank has its own processor. All
// ranks must use the same algorithms, so a flag holds only if every rank sets it.
const (
	flagMapped = 1 << iota
	flagDedicatedCores
)

// sharedTrailerBytes is the size of the memory after that of the collectives. It begins with a mismatchRecord, and its last word
// counts sleeping ranks.
const sharedTrailerBytes = 128

// closeSharedMemory unmaps the shared memory.
func (c *Comm) closeSharedMemory() error {
	if c.coll.shm.segment == nil {
		return nil
	}
	c.coll.shm.flat, c.coll.shm.mismatch = nil, nil
	c.coll.shm.immediate.Store(nil)
	seg := c.coll.shm.segment
	c.coll.shm.segment = nil
	return seg.Close()
}

// flatFor returns the shared-memory implementation if it is the fastest for this collective and number of bytes, or
// nil. The implementation compares the shapes of the ranks' calls.
func (g *collState) flatFor(what coll.Collective, bytes int, s callShape) *coll.Shm {
	if g.shm.flat == nil || g.shm.flat.Select(what, bytes) == coll.None {
		return nil
	}
	g.shm.flat.Begin(s.pack(g.call, bytes))
	return g.shm.flat
}

// WaitAtLeast waits until a word of the shared memory, which belongs to a rank or to all, is at least v.
func (g *collState) WaitAtLeast(rank int, w *uint64, v uint64) error {
	return g.check(g.comm.engine.WaitAtLeast(g.watched(rank), g.bytes, w, v, g.shm.sleepers))
}

// watched returns the route from the rank whose departure ends a wait. If all ranks are waited for, rank is -1, and it
// is the next rank: when one has left, the rank before it fails, and leaves the context of collectives, and so on.
func (g *collState) watched(rank int) proto.Route {
	if rank < 0 {
		rank = (int(g.rank) + 1) % len(g.peers)
	}
	return g.recvRoute(rank)
}

// Publish stores a word of the shared memory and wakes the ranks that sleep until it changes.
func (g *collState) Publish(w *uint64, v uint64) {
	atomic.StoreUint64(w, v) // before sleepers is read; WaitAtLeast counts itself a sleeper before it reads the word again
	if atomic.LoadUint64(g.shm.sleepers) != 0 {
		for i, p := range g.peers {
			if i != int(g.rank) {
				g.comm.engine.WakePeer(int(p))
			}
		}
	}
}
