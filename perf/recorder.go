package perf

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// AlwaysTimed is the size in bytes from which every operation is timed. Operations of 4096 bytes are sampled: they are in one
// size class with shorter ones, which are sampled.
const AlwaysTimed = 4096 + 1

// Of shorter operations the first sampleEvery are timed, and then one in sampleEvery on average. It stands for all calls since
// the last one that was timed. The distance is random, since the calls of many programs repeat with a period: with a fixed
// distance, those that are timed would always be the same ones of a period.
const sampleEvery = 32

// The distance of two calls that are timed is minGap to maxGap. With 1 the call after a timed one would have to be selected in
// advance; see addTiming. The mean is sampleEvery.
const (
	minGap = 2
	maxGap = 2*sampleEvery - minGap
)

// Mode selects what is recorded. The zero Mode is On.
type Mode uint8

// The modes: counters, and the latency of some operations; nothing; counters, and the latency of all operations.
const (
	On Mode = iota
	Off
	All
)

// String returns the mode as a value of IBRUN_PERF.
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
		return Off, fmt.Errorf("IBRUN_PERF=%q: want on, off or all", text)
	}
}

// Recorder writes the page of a rank. Only one goroutine at a time may call its methods, except Begin and Due, which are safe for
// concurrent use. A nil Recorder records nothing.
type Recorder struct {
	page      *layout
	clock     clock
	sampling  [1 << 8]sampling // by any Op
	timeAll   bool
	freeLanes uint8 // lanes, a bit each
	seq       uint64
	rows      int           // in use
	random    uint32        // state of nextGap
	where     func() string // returns the source position of the current call; nil: positions are not recorded
	// histograms is the number of histograms in use. It is not read from the page: another process can write there.
	histograms uint64

	trace     *Trace   // nil: none
	peer, tag int32    // of the operation that ends next, for the trace
	name      uint8    // see SetName
	names     []string // those of the page
}

// sampling selects the short calls of an operation that are timed.
type sampling struct {
	cells     *[Classes]cell // counters of the operation by size class; nil: the operation is not counted
	threshold uint64         // calls of at least so many bytes are timed: AlwaysTimed, or one of the constants below
	untilNext int32          // number of calls before the next that is timed
	warmed    uint8          // number of the first calls that were timed
	gap       uint8          // distance of the next that is timed from the last one: what it counts for
}

// Special values of sampling.threshold, which is compared as a signed number.
const (
	timeNext         = 0          // the next call is timed, whatever its length
	timeNextWeighted = ^uint64(0) // the same, and it is counted gap times
)

// NewRecorder initialises memory, which must be zero, as the page of a rank. The memory must stay valid and in place while the
// recorder is used. With mode Off, NewRecorder returns nil and does not change the memory.
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
	r := &Recorder{page: l, clock: newClock(), timeAll: mode == All, freeLanes: 1<<Lanes - 1, random: uint32(of.Rank)}
	for op := range r.sampling {
		p := &r.sampling[op]
		if p.threshold = math.MaxInt; Op(op).counted() {
			p.threshold, p.cells = timeNext, &l.cells[op]
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
	atomic.StoreUint64(&l.magic, magic) // stored last: a reader that sees it sees all others
	return r, nil
}

// Page returns the page that the recorder writes; nil if nothing is recorded. It is safe for concurrent use.
func (r *Recorder) Page() *Page {
	if r == nil {
		return nil
	}
	return &Page{r.page}
}

// Joined records the end of initialisation: the rank has joined the others, and its operations are now those of the program.
func (r *Recorder) Joined() {
	if r == nil {
		return
	}
	set(&r.page.waitingAtJoin, get(&r.page.waiting))
	set(&r.page.joined, uint64(time.Now().UnixNano()))
}

// Finish records that the rank has finalized.
func (r *Recorder) Finish() {
	if r == nil {
		return
	}
	set(&r.page.ended, uint64(time.Now().UnixNano()))
	set(&r.page.state, uint64(Finalized))
}

// Begin must be called when an operation on n bytes begins. The caller passes the result to End; it is 0 if the operation is not
// timed.
func (r *Recorder) Begin(op Op, n int) (start uint64) {
	if !r.Due(op, n) {
		return 0
	}
	return r.begin(op, n)
}

// Due reports whether an operation on n bytes that begins now is timed. It is inlined, which Begin is not; if it returns false,
// Begin would return 0. It is safe for concurrent use.
func (r *Recorder) Due(op Op, n int) bool {
	return r != nil && n >= int(get(&r.sampling[op].threshold))
}

// Flags in the lower bits of a start time.
const (
	timedBySize = 1 // timed because of its size
	weighted    = 2 // counted for those since the last one that was timed
	startFlags  = timedBySize | weighted
)

func (r *Recorder) begin(op Op, n int) uint64 {
	mark := uint64(0)
	switch from := &r.sampling[op].threshold; {
	case n >= AlwaysTimed:
		mark = timedBySize
	case atomic.LoadUint64(from) == timeNext:
	case atomic.CompareAndSwapUint64(from, timeNextWeighted, AlwaysTimed):
		mark = weighted
	default: // another goroutine begins the same operation now: only one of them is timed
		return 0
	}
	return max(r.clock.now()&^startFlags, startFlags+1) | mark
}

// End must be called when an operation has ended. It moved n bytes, which may be fewer than Begin was called with; start is the
// result of Begin.
func (r *Recorder) End(op Op, n int, start uint64) {
	if r == nil {
		return
	}
	p := &r.sampling[op]
	if p.cells == nil {
		return
	}
	c := &p.cells[ClassOf(n)&(Classes-1)]
	add(&c.calls, 1)
	add(&c.bytes, uint64(n))
	if start == 0 {
		if p.untilNext--; p.untilNext > 0 {
			return
		}
	}
	r.addTiming(op, c, n, start)
}

// addTiming records the time of an operation, if it was timed, and selects the next operation to be timed.
func (r *Recorder) addTiming(op Op, c *cell, n int, start uint64) {
	if start == 0 {
		if !r.timeAll {
			set(&r.sampling[op].threshold, timeNextWeighted)
		}
		return
	}
	if r.trace != nil {
		r.traceOp(op, n, start&^startFlags)
	}
	weight := uint64(1)
	switch {
	case start&timedBySize != 0, r.timeAll:
	case start&weighted != 0:
		weight = uint64(r.sampling[op].gap)
		r.sampling[op].selectNext(r.nextGap())
	default:
		if r.sampling[op].warmed++; r.sampling[op].warmed == sampleEvery {
			r.sampling[op].selectNext(r.nextGap())
			set(&r.sampling[op].threshold, AlwaysTimed)
		}
	}
	r.observe(c, r.clock.since(start&^startFlags), weight)
}

// selectNext makes the call that is gap calls after the last one the next that is timed.
func (p *sampling) selectNext(gap uint8) { p.gap, p.untilNext = gap, int32(gap)-1 }

// nextGap returns a random distance: the high bits of a linear congruential generator.
func (r *Recorder) nextGap() uint8 {
	r.random = r.random*1664525 + 1013904223
	return uint8(minGap + (r.random>>16)%(maxGap-minGap+1))
}

// observe adds a duration to the histogram of a cell. A cell without a histogram gets one from the pool.
func (r *Recorder) observe(c *cell, ns, weight uint64) {
	add(&c.time, ns*weight)
	slot := atomic.LoadUint64(&c.histogram) // once, as another process can write there
	if slot == 0 && r.histograms < Histograms {
		r.histograms++
		slot = r.histograms
		set(&r.page.histograms, slot)
		set(&c.histogram, slot)
	}
	if slot-1 >= Histograms { // all are in use, or the page was overwritten
		add(&r.page.withoutHistogram, 1)
		return
	}
	h := &r.page.latency[slot-1]
	add(&h.buckets[bucketOf(ns)], weight)
	if ns > h.max {
		set(&h.max, ns)
	}
}

// Now returns the time, for Waited.
func (r *Recorder) Now() uint64 {
	if r == nil {
		return 0
	}
	return r.clock.now()
}

// Waited adds the time since start, a result of Now, to the time spent waiting for other ranks.
func (r *Recorder) Waited(start uint64) {
	if r != nil {
		add(&r.page.waiting, r.clock.since(start))
	}
}

// Lane is the slot of the page that shows one operation in progress.
type Lane int8

// Enter records that a goroutine waits in op, or in a part of it, until Leave. It waits for rank peer of the job, or -1 for any,
// and for a tag, or less than 0 for any. If all lanes are in use it returns -1.
func (r *Recorder) Enter(op Op, peer, tag int32, n int) Lane {
	if r == nil || r.freeLanes == 0 {
		return -1
	}
	i := bits.TrailingZeros8(r.freeLanes)
	r.freeLanes &= r.freeLanes - 1
	r.seq++
	c, seq := &r.page.current[i&(Lanes-1)], r.seq
	set(&c.peer, seq<<32|uint64(uint32(peer)))
	set(&c.tag, seq<<32|uint64(uint32(tag)))
	set(&c.bytes, seq<<48|uint64(n)<<16>>16)
	if r.where != nil {
		r.page.places[i&(Lanes-1)].write(seq, op, r.where())
	}
	set(&c.head, seq<<16|uint64(op&(maxOps-1))<<8|uint64(r.name)<<1|1)
	r.name = 0
	return Lane(i)
}

// Leave ends the wait that Enter recorded.
func (r *Recorder) Leave(lane Lane) {
	if r != nil && lane >= 0 {
		set(&r.page.current[lane&(Lanes-1)].head, 0)
		r.freeLanes |= 1 << lane
	}
}

// Link counts the messages to and from a peer. The zero Link counts nothing.
type Link struct {
	row       *peerRow
	long      *longVolumes
	transport Transport
}

// Link returns the counters of a peer that is reached by a transport. It must be called once for each such pair.
func (r *Recorder) Link(peer int, t Transport) Link {
	if r == nil {
		return Link{}
	}
	if t >= Transports {
		t = OtherTransport
	}
	if r.rows == PeerRows {
		return Link{&r.page.peerRows[PeerRows+int(t)], &r.page.long, t}
	}
	set(&r.page.peerNames[r.rows], uint64(t)<<32|uint64(peer+1))
	r.rows++
	return Link{&r.page.peerRows[r.rows-1], &r.page.long, t}
}

// Zero reports whether k is the zero Link.
func (k *Link) Zero() bool { return k.row == nil }

// Transport returns the transport of the link; OtherTransport for the zero Link.
func (k *Link) Transport() Transport { return k.transport }

// Out counts a message of n bytes that was sent eagerly.
func (k *Link) Out(n int) {
	if k.row != nil {
		add(&k.row.out.messages, 1)
		add(&k.row.out.bytes, uint64(n))
	}
}

// In counts a message of n bytes that was received eagerly.
func (k *Link) In(n int) {
	if k.row != nil {
		add(&k.row.in.messages, 1)
		add(&k.row.in.bytes, uint64(n))
	}
}

// Received returns how many messages were received; 0 for the zero Link.
func (k *Link) Received() uint64 {
	if k.row == nil {
		return 0
	}
	return atomic.LoadUint64(&k.row.in.messages) + atomic.LoadUint64(&k.row.inOther.messages)
}

// OutBy counts a message that was sent by protocol p.
func (k *Link) OutBy(p Protocol, n int) {
	if p == Eager {
		k.Out(n)
	} else if k.row != nil {
		k.row.outOther.count(n)
		k.long.out[k.transport][p-1][lengthClass(n)].count(n)
	}
}

// InBy counts a message that was received by protocol p.
func (k *Link) InBy(p Protocol, n int) {
	if p == Eager {
		k.In(n)
	} else if k.row != nil {
		k.row.inOther.count(n)
		k.long.in[k.transport][p-1].count(n)
	}
}

// Unexpected records the number of unexpected messages that are stored, and the memory that they use.
func (r *Recorder) Unexpected(messages, bytes int) {
	if r == nil {
		return
	}
	gauge(&r.page.unexpected, &r.page.unexpectedHigh, messages)
	gauge(&r.page.unexpectedBytes, &r.page.unexpectedBytesHigh, bytes)
}

// Matched records the lengths of the match queues when a receive begins: posted receives and unexpected messages.
func (r *Recorder) Matched(receives, messages int) {
	if r == nil {
		return
	}
	gauge(&r.page.posted, &r.page.postedHigh, receives)
	add(&r.page.matches, 1)
	add(&r.page.matchLength, uint64(receives+messages))
}

// Registered records how many registrations were made so far, and how many bytes are registered now.
func (r *Recorder) Registered(made uint64, pinned int) {
	if r == nil {
		return
	}
	set(&r.page.registrations, made)
	gauge(&r.page.pinned, &r.page.pinnedHigh, pinned)
}

// Retransmitted records how many packets the transports have retransmitted so far.
func (r *Recorder) Retransmitted(packets uint64) {
	if r != nil {
		set(&r.page.retransmissions, packets)
	}
}

// Reconnected records how many connections the transports have made again so far, and how often received bytes had been changed
// on the way.
func (r *Recorder) Reconnected(connections, changed uint64) {
	if r != nil {
		set(&r.page.reconnections, connections)
		set(&r.page.changes, changed)
	}
}

// Progress records the progress that the program reports: done of total.
func (r *Recorder) Progress(done, total uint64) {
	if r == nil {
		return
	}
	set(&r.page.total, total)
	set(&r.page.done, done)
}

// Begun counts a message to a peer that is not counted by Link.Out as an eager one, before it is on its way, or the beginning of
// a transfer between the memory of two ranks.
func (r *Recorder) Begun() {
	if r != nil {
		add(&r.page.sentOther, 1)
	}
}

// Ended counts the arrival of a message that is not counted by Link.In as an eager one, a message that was counted and will
// never be sent, or the end of a transfer. What it causes must be counted by Begun before.
func (r *Recorder) Ended() {
	if r != nil {
		add(&r.page.arrivedOther, 1)
	}
}

// Paused records that eager messages are not counted for some time.
func (r *Recorder) Paused() {
	if r != nil {
		set(&r.page.paused, 1)
	}
}

// LostPeer records that an operation has failed because another process is gone: if this rank fails now, it is not the first
// process that does.
func (r *Recorder) LostPeer() {
	if r == nil {
		return
	}
	set(&r.page.lostPeer, 1)
}

func gauge(now, high *uint64, v int) {
	set(now, uint64(v))
	if uint64(v) > *high {
		set(high, uint64(v))
	}
}
