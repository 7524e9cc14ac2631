package core

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Collectives are the collectives of a communicator. One blocking collective is in progress at a
// time: it uses main from beginCall to endCall. Any number of immediate ones run beside it. Any
// goroutine may call the methods, also those of nil, which belong to a nil communicator.
type Collectives struct {
	comm       *Comm      // nil in those of the zero Comm
	main       collState  // of the blocking collectives
	args       arguments  // set by activate
	entering   enterState // guarded by main.busy
	immediates immediates
	started    startedCollectives

	// differ says that not all ranks have started the same collectives. Only the goroutine that
	// frees the communicator uses it.
	differ bool

	idupSeq atomic.Uint32  // number of Idups so far
	idups   sync.WaitGroup // Idups in progress, and immediate collectives whose calls are checked
}

// Collectives returns the collectives of the communicator. Their calls fail if it cannot be used.
func (c *Comm) Collectives() *Collectives {
	if c == nil {
		return nil
	}
	return &c.coll
}

// checkUsable returns an error if the communicator cannot be used.
func (cs *Collectives) checkUsable(op string) error {
	var c *Comm // that of nil Collectives
	if cs != nil {
		if c = cs.comm; c == nil {
			c = new(Comm)
		}
	}
	return c.checkUsable(op)
}

// isInter reports whether the communicator is an intercommunicator.
func (cs *Collectives) isInter() bool { return cs != nil && cs.comm.Remote() }

// collState is the state of a communicator's collectives: their message context, and the memory
// that all ranks share, if there is any. It implements coll.Peer and coll.WordSync. It has no
// pointer to the communicator. Its errors do not name the call; the caller adds the name.
type collState struct {
	coll.Local
	engine  *proto.Engine
	context uint32      // of the messages, with collectiveBit; set before the communicator can be used
	table   *coll.Table // of the process
	peers   []int32     // process by rank; for an intercommunicator the processes of both groups
	rank    int32
	tag     int32 // of all messages
	// main is Collectives.main: itself there, and elsewhere the state beside which this one is. It
	// knows for all of them why no collective can succeed any more.
	main *collState
	busy uint64 // in main: 1 while a collective is in progress; see begin
	// deterministic says that reductions use the algorithms with messages, wherever the ranks are.
	deterministic atomic.Bool
	// failed is, in main, why no collective can succeed any more: a process was lost or has left,
	// or calls differed. nil: one may succeed.
	failed atomic.Pointer[error]

	scratch struct {
		buf  []byte
		used int // bytes handed out by Scratch for the current collective
	}
	operation coll.Operation // of the current reduction

	// The current collective, as it is recorded.
	call  perf.Op
	bytes int // sent or received by this rank
	began uint64

	shm    sharedMemory
	levels coll.Levels // its Nodes are nil unless the ranks are on several nodes
}

// init sets what is known before the ranks have agreed on a context.
func (g *collState) init(p *Process, peers []int32, rank int32) {
	g.engine, g.table, g.main, g.peers, g.rank = p.engine, p.table, g, peers, rank
}

// beside returns the state of messages that have a tag of their own, so that they never match those
// of g. The context is the same, so a process that leaves it ends these messages as well.
func (g *collState) beside(tag int32, call perf.Op) *collState {
	return &collState{engine: g.engine, context: g.context, table: g.table, peers: g.peers, rank: g.rank, tag: tag,
		main: g.main, call: call}
}

var errBusy = errors.New(
	"another collective is in progress on this communicator; give each goroutine its own (Comm.Dup)")

// beginCall starts a collective. It returns an error if another one is in progress. The collective
// is recorded until endCall, with the bytes that this rank sends or receives. A call.Within() is
// shown as part of another call and is not counted. The first one that is not sets up shared
// memory: to make and free a communicator needs none.
func (cs *Collectives) beginCall(call perf.Op, bytes int) error {
	if cs == nil || cs.comm == nil || cs.comm.state.Load() != commReady { // otherwise the name of the call is not needed
		if err := cs.checkUsable(call.String()); err != nil {
			return err
		}
	}
	g := &cs.main
	if err := g.begin(); err != nil {
		return cs.comm.wrapError(call.String(), err)
	}
	g.scratch.used = 0
	g.call, g.bytes, g.began = call, bytes, g.engine.Recording().BeginCounted(call, bytes)
	// The set-up comes before the arguments are checked. So a rank that rejects its own takes part
	// in it, and the others do not wait for that rank.
	if !g.shm.tried && !call.IsWithin() {
		if err := g.shareMemory(cs.comm.proc.boot); err != nil {
			cs.endCall()
			return cs.comm.wrapError(call.String(), err)
		}
	}
	return nil
}

// endCall ends the recording of a collective and allows the next one. It executes no fence, if the
// collective is not timed: a fence waits until what this rank has published has arrived. The
// partner of the release is the compare-and-swap in begin: the next collective, which may be one of
// another goroutine, sees all that this one has stored.
func (cs *Collectives) endCall() {
	g := &cs.main
	if g.began != 0 {
		g.engine.Recording().EndOpOn(cs.comm.contextID, g.call, g.bytes, g.began)
	}
	g.call = perf.NoOp
	g.end()
}

// begin returns an error if a collective is in progress, or none can succeed any more. Else none
// begins until end. That none can succeed is returned first: if another one is in progress as well,
// it cannot succeed either, and waiting for its end would not help the program.
func (g *collState) begin() error {
	free := atomic.CompareAndSwapUint64(&g.busy, 0, 1)
	if failed := g.failed.Load(); failed != nil {
		if free {
			g.end()
		}
		return *failed
	}
	if !free {
		return WithClass(ErrComm, errBusy)
	}
	return nil
}

func (g *collState) end() { shm.StoreRelease64(&g.busy, 0) }

// Rank returns the rank of this process.
func (g *collState) Rank() int { return int(g.rank) }

// Table returns the table of the process.
func (g *collState) Table() *coll.Table { return g.table }

// findLevels determines how the ranks are distributed over nodes. nodes has the number of the node
// by process.
func (g *collState) findLevels(nodes []int32) {
	of := make([]int32, len(g.peers))
	for i, n := range g.peers {
		of[i] = nodes[n]
	}
	g.levels.Init(g, coll.NewNodes(of))
}

// nodes returns how the ranks are distributed over nodes for a collective; nil if they use one
// level. The order of operands in deterministic reductions depends on no node.
func (g *collState) nodes() *coll.Nodes {
	if g.deterministic.Load() {
		return nil
	}
	return g.levels.Nodes
}

// Levels returns what algorithms on two levels need; nil: there is one level.
func (g *collState) Levels() *coll.Levels {
	if g.nodes() == nil {
		return nil
	}
	return &g.levels
}

// Size returns the number of ranks.
func (g *collState) Size() int { return len(g.peers) }

func (g *collState) sendRoute(dst int) proto.Route {
	return proto.Route{Context: g.context, Peer: g.peers[dst],
		Match: proto.Match{Rank: g.rank, Tag: g.tag}, Op: g.call.Within()}
}

func (g *collState) recvRoute(src int) proto.Route {
	return proto.Route{Context: g.context, Peer: g.peers[src],
		Match: proto.Match{Rank: int32(src), Tag: g.tag}, Op: g.call.Within()}
}

// Send sends b to rank dst.
func (g *collState) Send(dst int, b []byte) error {
	return g.check(g.engine.Send(g.sendRoute(dst), b, proto.Standard))
}

// Recv receives b from rank src.
func (g *collState) Recv(src int, b []byte) error {
	// An algorithm knows the length of each message, so another one means that the ranks have given
	// different counts. Less data would leave a part of b as it was.
	st, err := g.engine.Recv(g.recvRoute(src), b)
	if err == nil && st.Bytes != len(b) {
		err = &proto.ExactLengthError{Source: int32(src), Got: st.Bytes, Want: len(b)}
	}
	return g.check(err)
}

// Sendrecv sends s and receives r at the same time.
func (g *collState) Sendrecv(dst int, s []byte, src int, r []byte) error {
	// Both ranks may send first. A send of a long message blocks until the other rank receives it,
	// so the receive must be there before.
	h := g.engine.Irecv(g.recvRoute(src), r)
	if err := g.engine.Send(g.sendRoute(dst), s, proto.Standard); err != nil {
		cancelRecv(g.engine, h)
		return g.check(err)
	}
	_, err := g.engine.Requests().Wait(h)
	return g.check(err)
}

// Isend starts a send.
func (g *collState) Isend(dst int, b []byte) (coll.Handle, error) {
	h, err := g.engine.Isend(g.sendRoute(dst), b, proto.Standard)
	return collHandle(h), g.check(err)
}

// Irecv starts a receive.
func (g *collState) Irecv(src int, b []byte) (coll.Handle, error) {
	return collHandle(g.engine.Irecv(g.recvRoute(src), b)), nil
}

func collHandle(h proto.Handle) coll.Handle {
	// It comes with an error, and there is no request whose numbers could be encoded.
	if h.Zero() {
		return coll.Handle{}
	}
	a, b := h.Encode()
	return coll.Handle{A: a, B: b}
}

// Waitall waits for all handles and returns the first error.
func (g *collState) Waitall(hs []coll.Handle) (first error) {
	// All are waited for, also after an error: the caller may use the buffers again afterwards.
	for _, h := range hs {
		if _, err := g.engine.Requests().Wait(g.engine.Requests().Decode(h.A, h.B)); err != nil && first == nil {
			first = err
		}
	}
	return g.check(first)
}

// Cancel ends sends and receives in progress. Those of which another rank has begun its part
// complete, or fail with that rank.
func (g *collState) Cancel(hs []coll.Handle) {
	e := g.engine
	for _, h := range hs {
		_ = e.Requests().Cancel(e.Requests().Decode(h.A, h.B)) // it may have completed; the caller returns the earlier error
	}
	for _, h := range hs {
		_, _ = e.Requests().Wait(e.Requests().Decode(h.A, h.B))
	}
}

// check returns the error of an operation of a collective. If it failed because a process is lost
// or has left, this rank leaves the context of collectives: ranks that wait for it fail as well,
// and every later collective of this rank fails. Otherwise one of its messages might be taken for
// one of the collective that has failed.
func (g *collState) check(err error) error {
	if err != nil && errors.Is(err, proto.ErrFailed) {
		// The mismatch is the better error. It says what the program has to mend, while the loss of
		// a rank is only its consequence.
		if m := g.recordedMismatch(); m != nil { // the rank that this one waited for has left because of it
			err = m
		}
		g.fail(err)
	}
	return err
}

// fail records why no collective can succeed any more, and leaves the context of collectives,
// except if all ranks free the communicator: they then leave it together.
func (g *collState) fail(err error) {
	if g.main.markFailed(err) && !errors.Is(err, proto.ErrFreed) {
		g.engine.Contexts().Leave(g.context)
	}
}

// markFailed records why no collective can succeed any more. It returns false if that is known.
func (g *collState) markFailed(err error) bool { return g.failed.CompareAndSwap(nil, &err) }

// Scratch returns memory that is valid until the next collective.
func (g *collState) Scratch(n int) []byte {
	if len(g.scratch.buf)-g.scratch.used < n {
		// Memory from earlier calls remains valid. The new buffer is large enough for the next
		// collective.
		g.scratch.buf = make([]byte, max(n, 2*len(g.scratch.buf), 4096))
		g.scratch.used = 0
	}
	// The capacity ends with the piece, so that an append cannot write to the next one. Pieces
	// begin at multiples of 16 bytes, the length of the longest number.
	b := g.scratch.buf[g.scratch.used : g.scratch.used+n : g.scratch.used+n]
	g.scratch.used = min((g.scratch.used+n+15)&^15, len(g.scratch.buf))
	return b
}

// Partners returns the number of ranks with which a rank exchanges data in a collective: those of
// the communicator, or of the other group of an intercommunicator.
func (cs *Collectives) Partners(op string) (int, error) {
	if err := cs.checkUsable(op); err != nil {
		return 0, err
	}
	if cs.isInter() {
		return cs.comm.RemoteSize(), nil
	}
	return cs.comm.Size(), nil
}
