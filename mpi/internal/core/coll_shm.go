package core

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// sharedMemory is memory that all ranks of a communicator share for their collectives; or, if they
// are on several nodes, those of this rank's node.
type sharedMemory struct {
	tried bool      // shareMemory has been called
	flat  *coll.Shm // nil if the ranks are on several nodes
	ranks []int32   // that share it, in ascending order
	self  int       // index of this rank there
	// immediates do immediate collectives, or their steps within a node. shareMemory sets it, which
	// all ranks call before or after the same immediate ones. nil: they use messages.
	immediates atomic.Pointer[coll.ShmImmediates]
	// root is 1 + the root of the last call of Bcast or Scatter since the last Barrier, in any
	// form; 0: there was none. The next Barrier expects such a call of the same root after it. A
	// wrong guess costs some context switches. Ranks may have different values, if goroutines make
	// these calls at the same time.
	root     atomic.Int32
	segment  fabric.Segment
	sleepers *uint64         // in segment: number of ranks that sleep until a word changes
	fenced   bool            // this rank must execute a fence before it reads sleepers; see fabric.Segment
	mismatch *mismatchRecord // in segment: why no collective can succeed any more
}

// expectRoot sets the root that the next Barrier expects. It does not store a value that is there:
// a store takes longer than a load.
func (m *sharedMemory) expectRoot(root int) {
	if next := int32(root) + 1; m.root.Load() != next {
		m.root.Store(next)
	}
}

// takeRoot returns the root that this Barrier expects, or -1 for none, and sets none for the next
// one.
func (m *sharedMemory) takeRoot() int {
	if m.root.Load() == 0 {
		return -1
	}
	return int(m.root.Swap(0)) - 1
}

// shareTag is the tag of the messages by which ranks agree to share memory. In Dup, Split and Free
// ranks agree by the same messages, but with the tag 0. So a rank in its first collective never
// takes the messages of a rank in one of those. See also checkTag.
const shareTag = 1<<29 + 2

// shareMemory sets up the memory that all ranks share, or on several nodes those of each node, at
// the first collective that is not part of another call. If any rank cannot map it, no rank uses
// it. boot is what the launcher has said of this process.
func (g *collState) shareMemory(boot *bootstrap.Process) error {
	// There is one attempt, also after an error. All ranks make it in the same collective: in a
	// later one, those that have succeeded would not take part.
	g.shm.tried = true
	if len(g.peers) == 1 || !g.engine.Segments().Available() {
		return nil
	}
	if n := g.levels.Nodes; n != nil {
		g.shm.ranks = n.Beside(g.Rank())
	} else {
		g.shm.ranks = firstNumbers[int32](len(g.peers))
	}
	g.shm.self = slices.Index(g.shm.ranks, g.rank)
	l := layOut(len(g.shm.ranks), g.levels.Nodes != nil)
	err := g.mapSegment(l)
	var mine, all [1]byte
	// The error itself is dropped. A rank that cannot map the memory still has to tell the others,
	// and then all of them use messages.
	if err == nil {
		mine[0] |= flagMapped
	}
	if !boot.Oversubscribed {
		mine[0] |= flagDedicatedCores
	}
	band, _, _ := Band.kernel(Elements{kind: datatype.Uint8})
	err = coll.Allreduce(g.beside(shareTag, g.call), all[:], mine[:], &coll.Operation{Kernel: band, ElemSize: 1, Commutative: true})
	if err == nil && all[0]&flagMapped == 0 {
		return g.closeSharedMemory()
	}
	if err != nil {
		return err
	}
	return g.useSegment(l, boot.NUMA, all[0]&flagDedicatedCores == 0)
}

// segmentLayout is how the memory that ranks share is divided. The words that every collective uses
// come first, so that they take few pages: sharedWordsBytes, the words of immediate collectives,
// and those of blocking ones. Then come the data of the blocking ones, and those of the immediate
// ones, which are allocated when they are used.
type segmentLayout struct {
	flat      int // where the memory of blocking collectives begins
	words     int // where the words end
	immediate int // where the data of immediate collectives begin
	bytes     int
}

// layOut returns the layout for some ranks, which are all ranks of a communicator, or those of one
// of several nodes.
func layOut(ranks int, severalNodes bool) (l segmentLayout) {
	words, data := coll.ShmImmediatesBytes(ranks, severalNodes)
	flat, _ := coll.ShmBytes(ranks)
	l.flat = sharedWordsBytes + words
	l.words = l.flat + coll.ShmWords(ranks, flat)
	l.immediate = l.flat + flat
	l.bytes = l.immediate + data
	return l
}

// mapSegment maps memory that g.shm.ranks share, and allocates its words. A rank that is alone on
// its node needs none.
func (g *collState) mapSegment(l segmentLayout) error {
	n := len(g.shm.ranks)
	if n == 1 {
		return nil
	}
	// The nodes of a communicator map segments of their own in the same context. So the lowest
	// process of those that share one is a part of its id.
	peers := make([]int, n)
	for i, r := range g.shm.ranks {
		peers[i] = int(g.peers[r])
	}
	slices.Sort(peers)
	id := uint64(g.context&^collectiveBit)<<32 | uint64(peers[0]+1)
	first := -1 // the process with the lowest number passes the memory to the others
	if peers[0] != int(g.peers[g.rank]) {
		first = slices.IndexFunc(g.shm.ranks, func(r int32) bool { return int(g.peers[r]) == peers[0] })
	}
	seg, err := g.engine.Segments().Map(g.watched(first), id, peers, l.bytes)
	if err != nil {
		return err
	}
	g.shm.segment = seg
	// Data are allocated when a collective first needs them: most programs use few algorithms.
	return seg.Allocate(seg.Bytes()[:l.words])
}

// useSegment lets collectives use the memory that has been mapped. numa is the NUMA node of this
// rank, as coll.Shm.FindNUMA takes it.
func (g *collState) useSegment(l segmentLayout, numa int, oversubscribed bool) (err error) {
	if g.levels.Memory = coll.NodeMemory; oversubscribed {
		g.levels.Memory = coll.OversubscribedNodes
	}
	if g.shm.segment == nil { // this rank is alone on its node
		// Not nil: a plan is told of shared memory at all ranks or at none, and ranks on other
		// nodes may have some.
		g.shm.immediates.Store(new(coll.ShmImmediates))
		return nil
	}
	mem := g.shm.segment.Bytes()
	g.shm.mismatch, g.shm.sleepers = sharedWords(mem[:sharedWordsBytes])
	g.shm.fenced = g.shm.segment.NeedsFence()
	cfg := coll.ShmConfig{
		Mem: mem[l.flat:l.immediate], Allocate: g.allocateShared, Rank: g.shm.self, Size: len(g.shm.ranks),
		Oversubscribed: oversubscribed, Cores: runtime.NumCPU(), Sync: g, Table: g.table,
	}
	memory, ok := g.shm.segment.(fabric.PeerMemory)
	if ok {
		cfg.Remote = &rankMemory{stepMemory{memory, g}}
	}
	// TryRemote and FindNUMA are collectives of the ranks that share the memory. Their order is the
	// same at all ranks.
	f, err := coll.NewShm(cfg)
	if err == nil && ok {
		err = f.TryRemote()
	}
	if err == nil {
		err = f.FindNUMA(numa)
	}
	if err != nil {
		return err
	}
	immediates, err := coll.NewShmImmediates(coll.ShmImmediateConfig{
		Words: mem[sharedWordsBytes:l.flat], Data: mem[l.immediate:], Allocate: g.shm.segment.Allocate,
		Rank: cfg.Rank, Size: cfg.Size, Oversubscribed: oversubscribed, Sync: stepWords{g}, Table: cfg.Table,
	}, g.levels.Nodes != nil)
	if err != nil {
		return err
	}
	if f.Remote != nil {
		immediates.ReadDirectly(stepMemory{memory, g}, f.Processes())
	}
	// These are set when nothing can fail any more. Until then a failure to read another rank's
	// memory is an answer, and not an error; see rankMemory.Read.
	if g.levels.Nodes != nil {
		g.levels.Shm = f
	} else {
		g.shm.flat = f
	}
	g.shm.immediates.Store(immediates)
	return nil
}

// allocateShared allocates a part of the memory that ranks share. If that fails, no later
// collective succeeds.
func (g *collState) allocateShared(part []byte) error {
	err := g.shm.segment.Allocate(part)
	if err != nil {
		g.fail(err)
	}
	return err
}

// rankMemory is the memory of the ranks that share a segment.
type rankMemory struct{ stepMemory }

// Read copies from the memory of a rank. If that fails, no later collective succeeds.
func (x *rankMemory) Read(rank int, process uint64, dst []byte, addr uint64) error {
	err := x.g.check(x.stepMemory.Read(rank, process, dst, addr))
	if err != nil && (x.g.shm.flat != nil || x.g.levels.Shm != nil) { // else the ranks find out whether they can read at all
		x.g.fail(err)
	}
	return err
}

// stepMemory is the same for the steps of immediate collectives.
type stepMemory struct {
	fabric.PeerMemory
	g *collState
}

// Read copies from the memory of a rank of those that share it. It may be the first to notice that
// a process has ended.
func (x stepMemory) Read(rank int, process uint64, dst []byte, addr uint64) error {
	err := x.PeerMemory.Read(process, dst, addr)
	if errors.Is(err, fabric.ErrPeerDown) {
		err = x.g.engine.Processes().LostPeer(x.g.peers[x.g.shm.ranks[rank]], err)
	}
	return err
}

// Flags on which the ranks agree before they share memory: the memory is mapped, and every rank has
// its own processor. All ranks must use the same algorithms, so a flag holds only if every rank
// sets it.
const (
	flagMapped = 1 << iota
	flagDedicatedCores
)

// sharedWordsBytes is the size of the memory before that of the collectives. It begins with a
// mismatchRecord, and its last word counts sleeping ranks.
const sharedWordsBytes = 128

// closeSharedMemory unmaps the shared memory. No collective may be in progress: the caller has
// ended both contexts of the communicator, or no rank has used the memory yet.
func (g *collState) closeSharedMemory() error {
	if g.shm.segment == nil {
		return nil
	}
	// The pointers are cleared also if Close fails: collectives then use messages.
	g.shm.flat, g.levels.Shm, g.shm.mismatch = nil, nil, nil
	g.shm.immediates.Store(nil)
	seg := g.shm.segment
	g.shm.segment = nil
	return seg.Close()
}

// sharesMemory reports whether shmFor has anything to do: without shared memory it returns nil.
func (g *collState) sharesMemory() bool { return g.shm.flat != nil || g.levels.Shm != nil }

// shmFor returns the shared-memory implementation if it is the fastest for this collective and
// number of bytes, or nil. The implementation compares the shapes of the ranks' calls.
func (g *collState) shmFor(what coll.Collective, bytes int, s checking.Shape) *coll.Shm {
	if g.levels.Shm != nil { // it compares the calls of the ranks of a node in the steps that an algorithm on two levels does there
		g.levels.Shm.Begin(s.Pack(g.call, bytes))
		return nil
	}
	if g.shm.flat == nil || g.shm.flat.Select(what, bytes) == coll.None {
		return nil
	}
	g.shm.flat.Begin(s.Pack(g.call, bytes))
	return g.shm.flat
}

// WaitAtLeast waits until a word of the shared memory, which belongs to one of the ranks that share
// it or to all, is at least v.
func (g *collState) WaitAtLeast(rank int, w *uint64, v uint64) error {
	return g.check(g.engine.Segments().WaitAtLeast(g.watched(rank), g.bytes, w, v, g.shm.sleepers))
}

// watched returns the route from the rank, of those that share memory, whose departure ends a wait.
// If all ranks are waited for, rank is -1, and it is the next rank: when one has left, the rank
// before it fails, and leaves the context of collectives, and so on.
func (g *collState) watched(rank int) proto.Route {
	if rank < 0 {
		rank = (g.shm.self + 1) % len(g.shm.ranks)
	}
	return g.recvRoute(int(g.shm.ranks[rank]))
}

// Publish stores a word of the shared memory and wakes the ranks that sleep until it changes.
func (g *collState) Publish(w *uint64, v uint64) {
	if g.store(w, v); atomic.LoadUint64(g.shm.sleepers) != 0 {
		for _, r := range g.shm.ranks {
			if r != g.rank {
				g.engine.Segments().Wake(int(g.peers[r]))
			}
		}
	}
}

// store stores a word of the shared memory, before sleepers is read. The partner is WaitAtLeast: it
// counts itself a sleeper, then makes this process pass a barrier, unless g.shm.fenced, and then
// reads the word again. The store of sync/atomic has a fence: it takes as long as a cache line from
// another core, and that store does not.
func (g *collState) store(w *uint64, v uint64) {
	if g.shm.fenced {
		atomic.StoreUint64(w, v)
	} else {
		shm.StoreRelease64(w, v)
	}
}
