package proto

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/notes"
)

// Partitioned communication: a message in partitions, each of which is sent when the program says
// that it is ready. Each partition of the sender is a message. The receiver may have another number
// of partitions.
//
// A first message, the setup, pairs the two requests: it has the tag of the program, and numbers
// the pair. It is sent when the sender's request is made, and received when the receiver's is made,
// so the requests are paired in this order. The rank of the setup, and of the messages of
// partitions, has a bit that those of other messages in the context do not have.
const (
	setupRank     = 1 << 30
	partitionRank = 1 << 29

	// MaxPartitions is the largest number of partitions of a message.
	MaxPartitions = 1 << partitionBits

	partitionBits = 16
	maxPairs      = 1 << 15
)

var (
	// ErrPartition reports a partition that does not exist, or that was ready before.
	ErrPartition = errors.New("invalid partition")
	// ErrPairs reports that too many partitioned sends exist.
	ErrPairs = fmt.Errorf("there are %d partitioned sends, the maximum: free some", maxPairs)
)

// partitioned is the program of a partitioned send or receive. Its fields are protected by the
// engine's lock.
type partitioned struct {
	all  *Schedules
	on   Route // with the rank of the sender and the tag of the program
	send bool
	buf  []byte
	// data are the elements if they are not one block. Then buf is for their packed bytes. nil: buf
	// is that block.
	data     *datatype.Buffer
	parts    int
	kind     uint32 // of the elements; 0: unknown
	setup    [setupBytes]byte
	schedule Schedule
	failed   func(error) // is called when it has failed

	pair     uint32
	messages int     // the sender's partitions; 0 until the receiver knows them
	ready    []int32 // send: the partitions that are ready, in the order in which they became so
	marked   []bool  // send: the partition is ready; receive: the message has arrived
}

// setupBytes is the length of a setup: the partitions of the sender, the pair, the kind of the
// elements, the length.
const setupBytes = 20

// Partitions describe one side of a partitioned message.
type Partitions struct {
	Buf    []byte
	Data   *datatype.Buffer // the elements if not one block; Buf is for their packed bytes
	Count  int              // of partitions, from 1 to MaxPartitions; they have the same length
	Kind   uint32           // of the elements: the same at both sides; 0: not to be compared
	Failed func(error)
}

// PsendInit returns a persistent request of a partitioned send. Failed is called with the engine's
// lock held when the send has failed: this process then has left the context, except if all
// processes free it.
func (ss *Schedules) PsendInit(to Route, x Partitions) (Handle, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	p := ss.newPartitioned(to, x, true)
	if to.Peer == ProcNull {
		return p.schedule.req.handle(), nil
	}
	for ss.pairs.used[ss.pairs.next%maxPairs] && len(ss.pairs.used) < maxPairs {
		ss.pairs.next++
	}
	p.pair = ss.pairs.next % maxPairs
	var err error
	if ss.pairs.used[p.pair] {
		err = ErrPairs
	} else {
		words := binary.LittleEndian.AppendUint32(p.setup[:0], uint32(p.parts))
		words = binary.LittleEndian.AppendUint32(words, p.pair)
		words = binary.LittleEndian.AppendUint32(words, p.kind)
		binary.LittleEndian.AppendUint64(words, uint64(len(p.buf)))
		err = ss.sendStep(&p.schedule, p.setupStep(StepSend))
	}
	if err != nil {
		p.schedule.req.schedule = nil
		ss.requests.release(p.schedule.req)
		return Handle{}, err
	}
	ss.pairs.next++
	ss.pairs.used[p.pair] = true
	return p.schedule.req.handle(), nil
}

// PrecvInit returns a persistent request of a partitioned receive. See PsendInit.
func (ss *Schedules) PrecvInit(from Route, x Partitions) Handle {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	p := ss.newPartitioned(from, x, false)
	if from.Peer != ProcNull {
		ss.recvStep(&p.schedule, p.setupStep(StepRecv))
	}
	return p.schedule.req.handle()
}

func (ss *Schedules) newPartitioned(on Route, x Partitions, send bool) *partitioned {
	if ss.pairs.used == nil {
		ss.pairs.used = map[uint32]bool{}
	}
	p := &partitioned{all: ss, on: on, send: send, buf: x.Buf, data: x.Data, parts: x.Count, kind: x.Kind, failed: x.Failed}
	if send {
		p.marked = make([]bool, p.parts)
	}
	// It is not long: the program calls Pready meanwhile, which makes progress.
	r := ss.new(on, 0, p, &p.schedule)
	p.schedule.tag = 0 // each step has its own
	ss.requests.makePersistent(r)
	return p
}

func (p *partitioned) setupStep(kind StepKind) Step {
	return Step{Kind: kind, Peer: p.on.Peer, Rank: p.on.Rank | setupRank, Tag: p.on.Tag, Buf: p.setup[:]}
}

// Step returns the next partition that can be sent, or the next message that can be received.
func (p *partitioned) Step(i int) (s Step, ok bool) {
	kind, message, n := StepSend, i, p.parts
	switch {
	case p.on.Peer == ProcNull:
		return s, false
	case p.send && i == p.parts:
		return s, false
	case p.send && i == len(p.ready):
		return Step{Kind: StepPause}, true
	case p.send:
		message = int(p.ready[i])
	case i == 0: // for the setup
		return Step{Kind: StepWait}, true
	case i == 1:
		return Step{Kind: StepShort}, true
	case i-2 == p.messages:
		return s, false
	default:
		kind, message, n = StepRecv, i-2, p.messages
	}
	length := len(p.buf) / n
	return Step{Kind: kind, Peer: p.on.Peer, Rank: p.on.Rank | partitionRank, Tag: int32(p.pair<<partitionBits) | int32(message),
		Buf: p.buf[message*length:][:length:length]}, true
}

// Do reads the setup.
func (p *partitioned) Do(int) error {
	if p.messages != 0 {
		return nil
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(p.setup[4*i:]) }
	parts, pair, kind, length := word(0), word(1), word(2), binary.LittleEndian.Uint64(p.setup[12:])
	switch {
	case parts == 0 || parts > MaxPartitions || pair >= maxPairs || length%uint64(parts) != 0:
		return fmt.Errorf("%w: the sender is not known", ErrPartition)
	case length != uint64(len(p.buf)):
		return fmt.Errorf("%w: the sender has %d bytes, and the receiver %d", ErrTruncate, length, len(p.buf))
	case kind != p.kind && kind != 0 && p.kind != 0:
		return fmt.Errorf("%w: the sender has other elements than the receiver", notes.ErrType)
	}
	p.messages, p.pair = int(parts), pair
	p.marked = make([]bool, parts)
	return nil
}

// arrived must be called when a message has been received.
func (p *partitioned) arrived(rank, tag int32) {
	i := int(tag & (1<<partitionBits - 1))
	if rank&partitionRank == 0 || i >= len(p.marked) {
		return
	}
	p.marked[i] = true
	if n := len(p.buf) / p.messages; p.data != nil {
		p.data.Unpack(p.buf[i*n:][:n], int64(i*n))
	}
}

// pack packs a partition of a send, without the lock: other goroutines may pack other partitions.
// It reports whether the send is still in progress.
func (p *partitioned) pack(i int) bool {
	s, n := &p.schedule, len(p.buf)/p.parts
	number := s.number
	p.all.mu.Unlock()
	p.data.Pack(p.buf[i*n:][:n], int64(i*n))
	p.all.mu.Lock()
	return s.number == number && s.req.schedule == s && s.req.state == active
}

// isPartitioned reports whether r is a partitioned request, or a message of one.
func (r *Request) isPartitioned() bool {
	if r.schedule == nil {
		return false
	}
	_, ok := r.schedule.program.(*partitioned)
	return ok
}

// isIdleSetup reports whether r is the setup of a partitioned request that is not active.
func (r *Request) isIdleSetup() bool {
	s := r.schedule
	return r.isPartitioned() && r != s.req && (s.req.schedule != s || s.req.state != active)
}

// mayComplete reports whether a partitioned request without an error can complete although its
// context has ended. A send can if all partitions were ready. A receive can if the receives of its
// messages were posted: these have been matched then. p may be nil.
func (p *partitioned) mayComplete() bool {
	return p != nil && (p.send && len(p.ready) == p.parts || !p.send && p.messages != 0)
}

// Started does nothing.
func (p *partitioned) Started() {}

// Abandoned does nothing: no other process reads the buffer except in messages.
func (p *partitioned) Abandoned(error) {}

// Ended prepares for the next start.
func (p *partitioned) Ended(err error) {
	clear(p.marked)
	p.ready = p.ready[:0]
	if err != nil {
		p.failed(err)
	}
}

// partitionedOf returns the program of a partitioned request that sends, or receives.
func partitionedOf(h Handle, send bool) (*partitioned, error) {
	if !h.valid() {
		return nil, ErrStale
	}
	if s := h.r.schedule; s != nil {
		if p, ok := s.program.(*partitioned); ok && p.send == send {
			return p, nil
		}
	}
	return nil, ErrState
}

func (p *partitioned) check(i int) error {
	if i < 0 || i >= p.parts {
		return fmt.Errorf("%w: %d of %d", ErrPartition, i, p.parts)
	}
	return nil
}

// Pready says that the partitions low to high of an active send, both included, are ready.
func (ss *Schedules) Pready(h Handle, low, high int) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	p, err := partitionedOf(h, true)
	switch {
	case err != nil:
		return err
	case h.r.state == done && (p.on.Peer != ProcNull || h.r.flags&contextEnded != 0):
		// It has failed.
		return nil
	case h.r.state == inactive:
		return ErrState
	}
	if err := errors.Join(p.check(low), p.check(high)); err != nil {
		return err
	}
	for i := low; i <= high; i++ {
		if p.marked[i] {
			return fmt.Errorf("%w: %d was ready before", ErrPartition, i)
		}
		p.marked[i] = true
		if p.data != nil && !p.pack(i) { // it has failed
			return nil
		}
		p.ready = append(p.ready, int32(i))
	}
	if s := &p.schedule; h.r.state == active && !s.busy && !h.r.transfer.queued {
		ss.advance(s, true)
	}
	ss.waiters.startBackground()
	return nil
}

// Parrived reports whether a partition of a receive has arrived. If not it makes progress once
// before. A receive that has completed has all, or its error is returned, as by the Wait after it.
func (ss *Schedules) Parrived(h Handle, i int) (bool, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	p, err := partitionedOf(h, false)
	if err == nil {
		err = p.check(i)
	}
	if err != nil {
		return false, err
	}
	if h.r.state == active && !p.has(i) {
		if err = ss.poller.pollInTest(); !h.valid() {
			return false, ErrStale
		}
	}
	if h.r.state == done && h.r.err != nil { // its buffer may have nothing
		return false, h.r.err
	}
	return h.r.state != active || p.has(i), h.r.operationError(err)
}

// has reports whether all messages with bytes of partition i have arrived.
func (p *partitioned) has(i int) bool {
	if p.messages == 0 {
		return false
	}
	first, last := 0, p.messages-1
	if length := len(p.buf) / p.messages; length != 0 {
		n := len(p.buf) / p.parts
		first, last = i*n/length, ((i+1)*n-1)/length
	}
	for _, ok := range p.marked[first : last+1] {
		if !ok {
			return false
		}
	}
	return true
}

// freed must be called when a persistent request of a schedule is freed.
func (s *Schedule) freed() {
	p, ok := s.program.(*partitioned)
	switch {
	case !ok || p.on.Peer == ProcNull:
	case p.send:
		delete(p.all.pairs.used, p.pair)
	case s.pending != 0: // no send has been made for it
		p.all.cancelMessages(s)
	}
}

// pairs are the numbers of the partitioned sends that exist. A number that was freed is used again
// as late as possible, since the receiver may not have received its last messages.
type pairs struct {
	next uint32
	used map[uint32]bool
}
