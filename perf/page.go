package perf

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Page is a reader's view of the page of a rank. Its methods are safe for concurrent use, while the rank writes and after it
// died.
type Page struct{ l *layout }

// Open returns the page in memory, which has at least [PageBytes]. The page refers to the memory: it must stay mapped while the
// page is in use. Errors are ErrShort, ErrEmpty, ErrCorrupt and *VersionError.
func Open(memory []byte) (*Page, error) {
	l := overlay(memory)
	if len(memory) < PageBytes || l == nil {
		return nil, fmt.Errorf("%w: %d bytes", ErrShort, len(memory))
	}
	switch m := atomic.LoadUint64(&l.magic); {
	case m == 0:
		return nil, ErrEmpty
	case m != magic:
		return nil, fmt.Errorf("%w: it begins with %#x", ErrCorrupt, m)
	}
	if v := atomic.LoadUint64(&l.version); v != Version {
		return nil, &VersionError{Got: v, Want: Version}
	}
	if n := atomic.LoadUint64(&l.bytes); n != layoutBytes {
		return nil, fmt.Errorf("%w: a layout of %d bytes, want %d", ErrCorrupt, n, layoutBytes)
	}
	p := &Page{l}
	if _, err := p.identity(); err != nil {
		return nil, err
	}
	return p, nil
}

// Identity identifies the rank of a page.
type Identity struct {
	// Rank is the rank in the job, of Size.
	Rank, Size int
	// PID is the process id in the namespace of the rank.
	PID int
}

// Identity returns the identity of the page's rank. It is zero if the page was overwritten since Open.
func (p *Page) Identity() Identity {
	i, _ := p.identity()
	return i
}

// identity reads the identity. It is checked each time, as the page can change at any time.
func (p *Page) identity() (Identity, error) {
	rank, size := atomic.LoadUint64(&p.l.rank), atomic.LoadUint64(&p.l.size)
	if rank >= size || size > 1<<31 {
		return Identity{}, fmt.Errorf("%w: rank %d of %d", ErrCorrupt, rank, size)
	}
	return Identity{int(rank), int(size), int(atomic.LoadUint64(&p.l.pid))}, nil
}

// LostPeer reports whether an operation of the rank has failed because another process is gone.
func (p *Page) LostPeer() bool { return atomic.LoadUint64(&p.l.lostPeer) != 0 }

// Volume is a number of messages and their payload in bytes.
type Volume struct {
	Messages, Bytes uint64
}

func (v Volume) plus(w Volume) Volume { return Volume{v.Messages + w.Messages, v.Bytes + w.Bytes} }

// OpStat has the counters of an operation for one size class.
type OpStat struct {
	Op    Op
	Class Class
	// Calls and Bytes are exact.
	Calls, Bytes uint64
	// Time is the time spent within the calls, estimated from the timed ones.
	Time time.Duration
	// Latency is the distribution of Calls or a few less. It is nil if no call was timed.
	Latency *Histogram
}

// Traffic is the volume in one direction, Out or In, over a transport by a protocol.
type Traffic struct {
	Direction Direction
	Transport Transport
	Protocol  Protocol
	Volume
}

// Peer is the traffic with another rank.
type Peer struct {
	// Rank is -1 for the sum of all peers without a row of their own that are reached by Transport.
	Rank      int
	Transport Transport
	Out, In   Volume
}

// Queues are the lengths of the match queues.
type Queues struct {
	// Unexpected is the number of stored unexpected messages, UnexpectedBytes the memory they use. The fields with High are the
	// largest values so far.
	Unexpected, UnexpectedHigh, UnexpectedBytes, UnexpectedBytesHigh uint64
	// Posted is the number of posted receives when it was last sampled, which is in one call of 32; PostedHigh is the largest
	// sample.
	Posted, PostedHigh uint64
	// Matches is the number of receives for which the length of the queues was sampled, and MatchLength the sum of these lengths:
	// the posted receives and unexpected messages when the receive began.
	Matches, MatchLength uint64
}

// Memory is the memory registered with devices.
type Memory struct {
	// Registrations is the number of registrations since the start, Pinned the number of bytes registered now, and PinnedHigh its
	// largest value so far.
	Registrations, Pinned, PinnedHigh uint64
}

// Current is an operation that a goroutine waits in.
type Current struct {
	// Seq identifies the operation within its Lane: as long as it is unchanged, the operation is the same.
	Seq  uint64
	Lane int
	Op   Op
	// Peer is the rank in the job that the operation waits for; -1 for any, none or several.
	Peer int
	// Tag is -1 for any or none.
	Tag int
	// Bytes is the size of the message or buffer.
	Bytes uint64
	// Where is the source position of the call; empty if the rank does not record Places.
	Where string
	// Comm is the name of the communicator; empty if the program has not named it.
	Comm string
}

// String describes the operation: Recv from rank 3 with tag 7, Barrier (waiting for rank 2).
func (c Current) String() string {
	text := c.Op.String()
	collective := c.Op.IsCollective() || c.Op.IsWithin()
	switch {
	case c.Peer >= 0 && collective: // the tag is not that of a call
		text += fmt.Sprintf(" (waiting for rank %d)", c.Peer)
	case c.Peer >= 0 && c.Op.Direction() == Out:
		text += fmt.Sprintf(" to rank %d", c.Peer)
	case c.Peer >= 0 && c.Op.Direction() == In:
		text += fmt.Sprintf(" from rank %d", c.Peer)
	case c.Peer >= 0:
		text += fmt.Sprintf(" with rank %d", c.Peer)
	}
	if c.Tag >= 0 && !collective {
		text += fmt.Sprintf(" with tag %d", c.Tag)
	}
	if c.Comm != "" {
		text += ` on "` + c.Comm + `"`
	}
	return text
}

// Snapshot is the content of a page. Its counters are read one after the other while the rank runs: each is exact at some moment
// during the call, and none ever decreases.
type Snapshot struct {
	Identity
	State State
	Mode  Mode
	// Began is the time when the rank initialised, Ended when it finalized; zero before.
	Began, Ended time.Time
	// Joined is the time when all ranks had joined and Init was done; zero before. Joining is the part of Waiting before that.
	Joined  time.Time
	Joining time.Duration
	// ClockHz is the rate of the counter that measured the times; 0 for the monotonic clock of the system.
	ClockHz uint64
	// Ops are the operations that were called, by operation and then class.
	Ops []OpStat
	// Traffic has all messages, including those of collectives, without entries that are zero.
	Traffic []Traffic
	// Long are the messages that the rank has sent and that are not eager, by transport, length and protocol. They are read after
	// Traffic, so they may be more.
	Long []LongTraffic
	// Peers are the ranks that messages were exchanged with, by rank.
	Peers []Peer
	// Waiting is the time spent waiting for other ranks, except waits too short for the rank to yield its processor.
	Waiting time.Duration
	Queues  Queues
	Memory  Memory
	// Retransmissions is the number of packets that the transports of the rank have retransmitted, as far as they report it.
	Retransmissions uint64
	// Reconnections is how many broken connections the transports of the rank have made again, as far as they report it. Changes is
	// how often bytes that the rank received had been changed on the way, which was detected.
	Reconnections, Changes uint64
	// Sent is the number of messages that the rank has sent, or is about to send, and of transfers between memory that it has
	// begun; Arrived is the number of those that have arrived or ended. All messages that the transports carry are counted, also
	// those of the library itself, except those that compare clocks. In a job in which nothing is on its way, the sums over all
	// ranks are equal. They say nothing if Paused is set for any rank: it did not count for some time.
	Sent, Arrived uint64
	Paused        bool
	// Done of Total is the progress that the program reports; Total is 0 if it reports none.
	Done, Total uint64
	// WithoutHistogram is the number of timed operations that are in no histogram, because all were in use.
	WithoutHistogram uint64
	// Current are the operations in progress, by Lane.
	Current []Current
	// Comms are the names that the program has given to communicators, in this order, without repetitions.
	Comms []string
}

// Snapshot reads the page. It returns ErrCorrupt if the content is invalid.
func (p *Page) Snapshot() (*Snapshot, error) {
	l := p.l
	get := atomic.LoadUint64
	identity, err := p.identity()
	if err != nil {
		return nil, err
	}
	s := &Snapshot{
		Identity: identity, State: State(get(&l.state)), Mode: Mode(get(&l.mode)), ClockHz: get(&l.clock),
		Began: unixTime(get(&l.began)), Ended: unixTime(get(&l.ended)),
		Joined: unixTime(get(&l.joined)), Joining: time.Duration(get(&l.waitingAtJoin)),
		Waiting: time.Duration(get(&l.waiting)), Retransmissions: get(&l.retransmissions),
		Reconnections: get(&l.reconnections), Changes: get(&l.changes),
		Arrived: get(&l.arrivedOther), Sent: get(&l.sentOther), Paused: get(&l.paused) != 0,
		Done: get(&l.done), Total: get(&l.total), WithoutHistogram: get(&l.withoutHistogram),
		Queues: Queues{
			Unexpected: get(&l.unexpected), UnexpectedHigh: get(&l.unexpectedHigh),
			UnexpectedBytes: get(&l.unexpectedBytes), UnexpectedBytesHigh: get(&l.unexpectedBytesHigh),
			Posted: get(&l.posted), PostedHigh: get(&l.postedHigh),
			Matches: get(&l.matches), MatchLength: get(&l.matchLength),
		},
		Memory: Memory{Registrations: get(&l.registrations), Pinned: get(&l.pinned), PinnedHigh: get(&l.pinnedHigh)},
	}
	if s.State != Running && s.State != Finalized {
		return nil, fmt.Errorf("%w: state %d", ErrCorrupt, uint8(s.State))
	}
	if err := p.ops(s); err != nil {
		return nil, err
	}
	if err := p.traffic(s); err != nil {
		return nil, err
	}
	s.Long, s.Current, s.Comms = l.long.sent(), l.waits(), l.names.all()
	return s, nil
}

func unixTime(ns uint64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(ns))
}

// ops reads the counters of operations.
func (p *Page) ops(s *Snapshot) error {
	for op := NoOp + 1; op < ops; op++ {
		for class := range Class(Classes) {
			c := &p.l.cells[op][class]
			calls := atomic.LoadUint64(&c.calls)
			if calls == 0 {
				continue
			}
			o := OpStat{Op: op, Class: class, Calls: calls, Bytes: atomic.LoadUint64(&c.bytes),
				Time: time.Duration(atomic.LoadUint64(&c.time))}
			switch slot := atomic.LoadUint64(&c.histogram); {
			case slot > Histograms:
				return fmt.Errorf("%w: histogram %d of %d", ErrCorrupt, slot, Histograms)
			case slot != 0:
				o.Latency = p.l.latency[slot-1].read(uint64(o.Time))
			}
			s.Ops = append(s.Ops, o)
		}
	}
	return nil
}

func (h *latency) read(sum uint64) *Histogram {
	var counts [buckets]uint64
	for i := range counts {
		counts[i] = atomic.LoadUint64(&h.buckets[i])
	}
	return newHistogram(counts[:], sum, atomic.LoadUint64(&h.max))
}

// traffic reads the traffic by peer and by protocol. Eager traffic is the sum over the peers, and what else was sent the sum over
// the lengths. So each message is counted in one place, and sums never decrease.
func (p *Page) traffic(s *Snapshot) error {
	var eager [2][Transports]Volume
	for i := range p.l.peerRows {
		r := &p.l.peerRows[i]
		peer := Peer{Rank: -1, Transport: Transport(i - PeerRows)}
		if i < PeerRows {
			name := atomic.LoadUint64(&p.l.peerNames[i])
			if name == 0 {
				continue
			}
			peer.Rank, peer.Transport = int(uint32(name))-1, Transport(name>>32)
			if peer.Rank >= s.Size || name>>32 >= uint64(Transports) {
				return fmt.Errorf("%w: peer %d of %d, transport %d", ErrCorrupt, peer.Rank, s.Size, name>>32)
			}
		} else if peer.Transport >= Transports {
			break
		}
		out, in := r.out.read(), r.in.read()
		eager[0][peer.Transport] = eager[0][peer.Transport].plus(out)
		eager[1][peer.Transport] = eager[1][peer.Transport].plus(in)
		peer.Out, peer.In = out.plus(r.outOther.read()), in.plus(r.inOther.read())
		if i < PeerRows || peer.Out != (Volume{}) || peer.In != (Volume{}) {
			s.Peers = append(s.Peers, peer)
		}
	}
	slices.SortStableFunc(s.Peers, func(a, b Peer) int { return a.Rank - b.Rank })
	for t := range Transports {
		s.Sent, s.Arrived = s.Sent+eager[0][t].Messages, s.Arrived+eager[1][t].Messages
	}
	for d := range eager {
		for t := range Transports {
			for pr := range Protocols {
				v := eager[d][t]
				if pr != Eager {
					v = p.l.long.sum(d, t, pr)
				}
				if v != (Volume{}) {
					s.Traffic = append(s.Traffic, Traffic{Out + Direction(d), t, pr, v})
				}
			}
		}
	}
	return nil
}

// read returns the operation in progress, if there is one. If the writer changed it meanwhile, read tries again. After some
// tries it reports none: operations follow one another quickly, and none of them lasts.
func (c *current) read() (now Current, name uint64, ok bool) {
	for range 8 {
		head := atomic.LoadUint64(&c.head)
		if head&1 == 0 {
			return Current{}, 0, false
		}
		seq := head >> 16
		peer, tag, n := atomic.LoadUint64(&c.peer), atomic.LoadUint64(&c.tag), atomic.LoadUint64(&c.bytes)
		if uint32(peer>>32) != uint32(seq) || uint32(tag>>32) != uint32(seq) || uint16(n>>48) != uint16(seq) ||
			atomic.LoadUint64(&c.head) != head {
			continue
		}
		return Current{Seq: seq, Op: Op(head>>8) & (maxOps - 1), Peer: int(int32(peer)), Tag: max(int(int32(tag)), -1),
				Bytes: n << 16 >> 16},
			head >> 1 & 0x7f, true
	}
	return Current{}, 0, false
}
