package perf

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// AlwaysTimed is the size in bytes from which every operation is timed. Those of 4096 bytes are not: they are in one class of
// sizes with shorter ones, of which some are.
const AlwaysTimed = 4096 + 1

// Of shorter operations the first are timed, and then one in sampleEvery, which stands for all of these.
const sampleEvery = 32

// Mode is how much is recorded. The zero Mode is On.
type Mode uint8

// The modes: counters, and the latency of some operations; nothing; counters, and the latency of all operations.
const (
	On Mode = iota
	Off
	All
)

// String is the mode as IBRUN_PERF has it.
func (m Mode) String() string {
	if m <= All {
		return [...]string{"on", "off", "all"}[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ModeFromEnv reads IBRUN_PERF: on, off or all; On if it is not set.
func ModeFromEnv(getenv func(string) string) (Mode, error) {
	switch text := getenv("IBRUN_PERF"); text {
	case "", "on":
		return On, nil
	case "off":
		return Off, nil
	case "all":
		return All, nil
	default:
		return Off, fmt.Errorf("IBRUN_PERF=%q: it is on, off or all", text)
	}
}

// Recorder writes the page of a rank. One goroutine at a time calls its methods, but for Begin, which any may call. A nil
// Recorder records nothing.
type Recorder struct {
	l     *layout
	clock clock
	paces [1 << 8]pace // by any Op
	all   bool
	free  uint8 // lanes, a bit each
	seq   uint64
	rows  int // in use

	trace     *Trace // nil: none
	peer, tag int32  // of the operation that ends next, for the trace
}

// pace says which of an operation's short calls are timed.
type pace struct {
	row  *[Classes]cell // where the operation is counted; nil: it is not
	from uint64         // how long the next is to be for being timed: AlwaysTimed, or one of those below
	left int32          // how many are not, before the next that is
	warm uint8          // how many of the first were
}

// What else pace.from is, a signed number.
const (
	one     = 0          // the next is timed, whatever its length
	forMany = ^uint64(0) // likewise, and stands for sampleEvery
)

// NewRecorder makes memory, which is all zero, the page of a rank. Memory must not move or go as long as the recorder is
// used. With mode Off the recorder is nil and the memory untouched.
func NewRecorder(memory []byte, of Identity, mode Mode) (*Recorder, error) {
	if mode == Off {
		return nil, nil
	}
	l := overlay(memory)
	if l == nil || len(memory) < PageBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrShort, len(memory))
	}
	if l.magic != 0 {
		return nil, errors.New("perf: the page is in use")
	}
	r := &Recorder{l: l, clock: newClock(), all: mode == All, free: 1<<Lanes - 1}
	for op := range r.paces {
		p := &r.paces[op]
		if p.from = math.MaxInt; Op(op).counted() {
			p.from, p.row = one, &l.cells[op]
		}
	}
	set(&l.version, Version)
	set(&l.bytes, layoutBytes)
	set(&l.state, uint64(Running))
	set(&l.rank, uint64(of.Rank))
	set(&l.size, uint64(of.Size))
	set(&l.pid, uint64(of.PID))
	set(&l.mode, uint64(mode))
	set(&l.began, uint64(time.Now().UnixNano()))
	set(&l.clock, r.clock.hz)
	atomic.StoreUint64(&l.magic, magic) // behind all others: who sees it sees them
	return r, nil
}

// Page is what the recorder writes, as readers see it; nil if nothing is recorded. Any goroutine may call it.
func (r *Recorder) Page() *Page {
	if r == nil {
		return nil
	}
	return &Page{r.l}
}

// Joined says that the rank has found the others, and that what it does from now on is the program's.
func (r *Recorder) Joined() {
	if r == nil {
		return
	}
	set(&r.l.joining, get(&r.l.waiting))
	set(&r.l.joined, uint64(time.Now().UnixNano()))
}

// Finish says that the rank has finalized.
func (r *Recorder) Finish() {
	if r == nil {
		return
	}
	set(&r.l.ended, uint64(time.Now().UnixNano()))
	set(&r.l.state, uint64(Finalized))
}

// Begin is called when an operation on n bytes begins. Its result belongs to End; it is 0 if the operation is not timed.
func (r *Recorder) Begin(op Op, n int) (start uint64) {
	if !r.Due(op, n) {
		return 0
	}
	return r.begin(op, n)
}

// Due tells whether an operation on n bytes that begins now is timed: Begin returns 0 if not, and is a call. Any goroutine may
// ask.
func (r *Recorder) Due(op Op, n int) bool { return r != nil && n >= int(get(&r.paces[op].from)) }

// What the lower bits of a start say besides the time.
const (
	long  = 1 // timed for its size
	heavy = 2 // timed for all of sampleEvery
	marks = long | heavy
)

func (r *Recorder) begin(op Op, n int) uint64 {
	mark := uint64(0)
	switch from := &r.paces[op].from; {
	case n >= AlwaysTimed:
		mark = long
	case atomic.LoadUint64(from) == one:
	case atomic.CompareAndSwapUint64(from, forMany, AlwaysTimed):
		mark = heavy
	default: // several goroutines may begin the same operation: one stands for the others
		return 0
	}
	return max(r.clock.now()&^marks, marks+1) | mark
}

// End is called when the operation that Begin was told of has ended, having moved n bytes, which may be fewer than were expected.
func (r *Recorder) End(op Op, n int, start uint64) {
	if r == nil {
		return
	}
	p := &r.paces[op]
	if p.row == nil {
		return
	}
	c := &p.row[ClassOf(n)&(Classes-1)]
	add(&c.calls, 1)
	add(&c.bytes, uint64(n))
	if start == 0 {
		if p.left--; p.left > 0 {
			return
		}
	}
	r.timed(op, c, n, start)
}

// timed sees to what is timed, and to what will be.
func (r *Recorder) timed(op Op, c *cell, n int, start uint64) {
	if start == 0 {
		if !r.all {
			set(&r.paces[op].from, forMany)
		}
		return
	}
	if r.trace != nil {
		r.traced(op, n, start&^marks)
	}
	weight := uint64(1)
	switch {
	case start&long != 0, r.all:
	case start&heavy != 0:
		weight = sampleEvery
		r.paces[op].left = sampleEvery - 1
	default:
		if r.paces[op].warm++; r.paces[op].warm == sampleEvery {
			r.paces[op].left = sampleEvery - 1
			set(&r.paces[op].from, AlwaysTimed)
		}
	}
	r.observe(c, r.clock.since(start&^marks), weight)
}

// observe puts a duration into the histogram of a cell, which it finds if it has none yet.
func (r *Recorder) observe(c *cell, ns, weight uint64) {
	add(&c.time, ns*weight)
	if c.slot == 0 {
		if r.l.histograms == Histograms {
			add(&r.l.untold, 1)
			return
		}
		add(&r.l.histograms, 1)
		set(&c.slot, r.l.histograms)
	}
	h := &r.l.latency[c.slot-1]
	add(&h.buckets[bucketOf(ns)], weight)
	if ns > h.max {
		set(&h.max, ns)
	}
}

// Now is a time to be given to Waited.
func (r *Recorder) Now() uint64 {
	if r == nil {
		return 0
	}
	return r.clock.now()
}

// Waited adds the time since start, which Now told, to that spent waiting for others.
func (r *Recorder) Waited(start uint64) {
	if r != nil {
		add(&r.l.waiting, r.clock.since(start))
	}
}

// Lane is where an operation under way is shown.
type Lane int8

// Enter shows that a goroutine waits in op or within it, for a rank of the job or -1 for any, with a tag or less than 0,
// until Leave.
func (r *Recorder) Enter(op Op, peer, tag int32, n int) Lane {
	if r == nil || r.free == 0 {
		return -1
	}
	i := bits.TrailingZeros8(r.free)
	r.free &= r.free - 1
	r.seq++
	c, seq := &r.l.current[i&(Lanes-1)], r.seq
	set(&c.peer, seq<<32|uint64(uint32(peer)))
	set(&c.tag, seq<<32|uint64(uint32(tag)))
	set(&c.bytes, seq<<48|uint64(n)<<16>>16)
	set(&c.head, seq<<16|uint64(op&(maxOps-1))<<8|1)
	return Lane(i)
}

// Leave ends what Enter showed.
func (r *Recorder) Leave(lane Lane) {
	if r != nil && lane >= 0 {
		set(&r.l.current[lane&(Lanes-1)].head, 0)
		r.free |= 1 << lane
	}
}

// Link counts what goes to a peer and comes from it. The zero Link counts nothing.
type Link struct {
	row    *row
	others *[2][8][Protocols - 1]volume
	t      Transport
}

// Link returns that of a peer that is reached by a transport. It is asked for once for each pair of these.
func (r *Recorder) Link(peer int, t Transport) Link {
	if r == nil {
		return Link{}
	}
	if t >= Transports {
		t = OtherTransport
	}
	if r.rows == PeerRows {
		return Link{&r.l.rows[PeerRows+int(t)], &r.l.others, t}
	}
	set(&r.l.names[r.rows], uint64(t)<<32|uint64(peer+1))
	r.rows++
	return Link{&r.l.rows[r.rows-1], &r.l.others, t}
}

// Zero tells whether k is the zero Link.
func (k *Link) Zero() bool { return k.row == nil }

// Transport is what it was asked for with; OtherTransport for the zero Link.
func (k *Link) Transport() Transport { return k.t }

// Out counts a message of n bytes that went eagerly.
func (k *Link) Out(n int) {
	if k.row != nil {
		add(&k.row.out.messages, 1)
		add(&k.row.out.bytes, uint64(n))
	}
}

// In counts a message of n bytes that came eagerly.
func (k *Link) In(n int) {
	if k.row != nil {
		add(&k.row.in.messages, 1)
		add(&k.row.in.bytes, uint64(n))
	}
}

// OutBy counts a message that went by some protocol.
func (k *Link) OutBy(p Protocol, n int) {
	if p == Eager {
		k.Out(n)
	} else if k.row != nil {
		k.row.outOther.count(n)
		k.others[0][k.t][p-1].count(n)
	}
}

// InBy counts a message that came by some protocol.
func (k *Link) InBy(p Protocol, n int) {
	if p == Eager {
		k.In(n)
	} else if k.row != nil {
		k.row.inOther.count(n)
		k.others[1][k.t][p-1].count(n)
	}
}

func (v *volume) count(n int) {
	add(&v.messages, 1)
	add(&v.bytes, uint64(n))
}

// Unexpected tells how many messages are kept that came before their receives, and what memory they take.
func (r *Recorder) Unexpected(messages, bytes int) {
	if r == nil {
		return
	}
	gauge(&r.l.unexpected, &r.l.unexpectedHigh, messages)
	gauge(&r.l.unexpectedBytes, &r.l.bytesHigh, bytes)
}

// Matched tells how many receives and messages wait when another receive is begun.
func (r *Recorder) Matched(receives, messages int) {
	if r == nil {
		return
	}
	gauge(&r.l.posted, &r.l.postedHigh, receives)
	add(&r.l.matches, 1)
	add(&r.l.matchLength, uint64(receives+messages))
}

// Registered tells how many registrations were made so far, and how many bytes are registered.
func (r *Recorder) Registered(made uint64, pinned int) {
	if r == nil {
		return
	}
	set(&r.l.registrations, made)
	gauge(&r.l.pinned, &r.l.pinnedHigh, pinned)
}

// Retransmitted tells how many packets the transports sent again so far.
func (r *Recorder) Retransmitted(packets uint64) {
	if r != nil {
		set(&r.l.retransmissions, packets)
	}
}

// Progress tells how far the program says it is: done of total.
func (r *Recorder) Progress(done, total uint64) {
	if r == nil {
		return
	}
	set(&r.l.total, total)
	set(&r.l.done, done)
}

func gauge(now, high *uint64, v int) {
	set(now, uint64(v))
	if uint64(v) > *high {
		set(high, uint64(v))
	}
}
