package mpi

import (
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// sharedMemory is memory that all ranks of a communicator share for their collectives.
type sharedMemory struct {
	tried    bool // shareMemory has been called
	flat     *coll.Flat
	segment  fabric.Segment
	sleepers *uint64 // in segment: number of ranks that sleep until a word changes
}

// shareMemory sets up memory shared by all ranks, at the first collective. If any rank cannot, all go without.
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
	bytes, _ := coll.FlatBytes(n)
	id := uint64(g.comm.contextID)<<32 | uint64(peers[0]+1)
	seg, err := g.comm.engine.MapSegment(g.call.Within(), id, peers, bytes+sharedTrailerBytes)
	var mine, all [1]byte
	if err == nil {
		g.shm.segment = seg
		mine[0] |= flagMapped
	}
	if !g.comm.proc.boot.Oversubscribed {
		mine[0] |= flagDedicatedCores
	}
	band, _, _ := Band.kernel(datatype.Uint8)
	err = coll.Allreduce(g, all[:], mine[:], &coll.Operation{Kernel: band, ElemSize: 1, Commutative: true})
	g.scratch.used = 0
	if err != nil || all[0]&flagMapped == 0 {
		return err
	}
	g.shm.sleepers = lastWord(seg.Bytes()[:bytes+sharedTrailerBytes])
	g.shm.flat, err = coll.NewFlat(coll.Shared{
		Mem: seg.Bytes()[:bytes], Rank: g.Rank(), Size: n, Crowded: all[0]&flagDedicatedCores == 0,
		Cores: runtime.NumCPU(), Wait: g,
	})
	return err
}

// What the ranks agree on before they share memory: it is there at every rank, and every rank has a processor. Each may
// know better than another, and the collectives take different ways, so it has to be the same for all.
const (
	flagMapped = 1 << iota
	flagDedicatedCores
)

// sharedTrailerBytes is the memory behind that of the collectives; its last word counts sleepers.
const sharedTrailerBytes = 128

// closeSharedMemory gives the shared memory back.
func (c *Comm) closeSharedMemory() error {
	if c.coll.shm.segment == nil {
		return nil
	}
	c.coll.shm.flat = nil
	seg := c.coll.shm.segment
	c.coll.shm.segment = nil
	return seg.Close()
}

// flatFor returns the shared memory form of a collective if it is the better one for this many bytes, or nil.
func (g *collState) flatFor(what coll.Collective, bytes int) *coll.Flat {
	if g.shm.flat == nil || !g.shm.flat.Prefers(what, bytes) {
		return nil
	}
	return g.shm.flat
}

// WaitAtLeast waits for a word of the shared memory.
func (g *collState) WaitAtLeast(w *uint64, v uint64) error {
	return g.comm.engine.WaitAtLeast(g.call.Within(), g.bytes, w, v, g.shm.sleepers)
}

// Publish stores a word of the shared memory and wakes who sleeps for it.
func (g *collState) Publish(w *uint64, v uint64) {
	atomic.StoreUint64(w, v) // before sleepers are looked at, as WaitAtLeast asks
	if atomic.LoadUint64(g.shm.sleepers) != 0 {
		for i, p := range g.peers {
			if i != int(g.rank) {
				g.comm.engine.WakePeer(int(p))
			}
		}
	}
}
