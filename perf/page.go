package perf

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Page is a page of some rank as a reader sees it. Any goroutine may call its methods, while the rank writes and after it died.
type Page struct{ l *layout }

// Open looks at memory of at least [PageBytes] that holds a page. The page refers to it: it stays mapped while the page is in
// use. Errors are ErrShort, ErrEmpty, ErrCorrupt and *VersionError.
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
	rank, size := atomic.LoadUint64(&l.rank), atomic.LoadUint64(&l.size)
	if rank >= size || size > 1<<31 {
		return nil, fmt.Errorf("%w: rank %d of %d", ErrCorrupt, rank, size)
	}
	return &Page{l}, nil
}

// Identity says whose page it is.
type Identity struct {
	// Rank is the rank in the job, of Size.
	Rank, Size int
	// PID is the process, in its own namespace.
	PID int
}

// Identity is that of the page's rank.
func (p *Page) Identity() Identity {
	l := p.l
	return Identity{int(atomic.LoadUint64(&l.rank)), int(atomic.LoadUint64(&l.size)), int(atomic.LoadUint64(&l.pid))}
}

// Volume is a number of messages and their payload in bytes.
type Volume struct {
	Messages, Bytes uint64
}

func (v Volume) plus(w Volume) Volume { return Volume{v.Messages + w.Messages, v.Bytes + w.Bytes} }

// OpStat is what is known of an operation with sizes of a class.
type OpStat struct {
	Op    Op
	Class Class
	// Calls is exact, as is Bytes.
	Calls, Bytes uint64
	// Time is spent within the calls, estimated from those that were timed.
	Time time.Duration
	// Latency stands for Calls or a few less. It is nil if none was timed.
	Latency *Histogram
}

// Traffic is what went one way, Out or In, over a transport by a protocol.
type Traffic struct {
	Direction Direction
	Transport Transport
	Protocol  Protocol
	Volume
}

// Peer is what went to another rank and came from it.
type Peer struct {
	// Rank is -1 for all peers together that have no row of their own and are reached by Transport.
	Rank      int
	Transport Transport
	Out, In   Volume
}

// Queues are the lengths of what waits to be matched.
type Queues struct {
	// Unexpected is how many messages are kept that came before their receives, UnexpectedBytes the memory they take, and the
	// others the most there ever were.
	Unexpected, UnexpectedHigh, UnexpectedBytes, UnexpectedBytesHigh uint64
	// Posted is how many receives waited when it was last looked at, which is at one call in 32, and the most seen.
	Posted, PostedHigh uint64
	// Matches is of how many receives the length of the queue was taken, and MatchLength the sum of these lengths: how much waited,
	// receives or messages, when it was begun.
	Matches, MatchLength uint64
}

// Memory is what is registered with devices.
type Memory struct {
	// Registrations is how many were made since the start, Pinned the bytes registered now, and PinnedHigh the most ever.
	Registrations, Pinned, PinnedHigh uint64
}

// Current is an operation that a goroutine waits in.
type Current struct {
	// Seq names this operation among those of its Lane: while it stays, the operation is the same.
	Seq  uint64
	Lane int
	Op   Op
	// Peer is the rank in the job that it waits for, -1 for any or none in particular.
	Peer int
	// Tag is -1 for any or none.
	Tag int
	// Bytes is the size of the message or buffer.
	Bytes uint64
}

// Snapshot is what a page said. Its counters are taken one after the other while the rank goes on: each is exact at
// some moment during the call and none ever goes back.
type Snapshot struct {
	Identity
	State State
	Mode  Mode
	// Began is when the rank initialised, Ended when it finalized; zero before.
	Began, Ended time.Time
	// Joined is when all ranks had come and Init was done, zero before. Joining is the part of Waiting that was before.
	Joined  time.Time
	Joining time.Duration
	// ClockHz is the rate of the counter that took the times; 0: the system's monotonic clock did.
	ClockHz uint64
	// Ops are those called, by operation and then class.
	Ops []OpStat
	// Traffic is that of all messages, those within collectives too, where it is not zero.
	Traffic []Traffic
	// Peers are those that messages were exchanged with, by rank.
	Peers []Peer
	// Waiting is the time spent waiting for others, except waits so short that the rank never offered its processor to anybody.
	Waiting time.Duration
	Queues  Queues
	Memory  Memory
	// Retransmissions is how many packets the transports of this process had to send again, as far as they know.
	Retransmissions uint64
	// Done of Total is the program's own progress; Total is 0 if it reports none.
	Done, Total uint64
	// Untold is how many operations were timed and stand in no histogram, since all were in use.
	Untold uint64
	// Current are the operations waited in, by Lane.
	Current []Current
}

// Snapshot reads the page. It fails with ErrCorrupt if the page contradicts itself.
func (p *Page) Snapshot() (*Snapshot, error) {
	l := p.l
	get := atomic.LoadUint64
	s := &Snapshot{
		Identity: p.Identity(), State: State(get(&l.state)), Mode: Mode(get(&l.mode)), ClockHz: get(&l.clock),
		Began: unixTime(get(&l.began)), Ended: unixTime(get(&l.ended)),
		Joined: unixTime(get(&l.joined)), Joining: time.Duration(get(&l.joining)),
		Waiting: time.Duration(get(&l.waiting)), Retransmissions: get(&l.retransmissions),
		Done: get(&l.done), Total: get(&l.total), Untold: get(&l.untold),
		Queues: Queues{
			Unexpected: get(&l.unexpected), UnexpectedHigh: get(&l.unexpectedHigh),
			UnexpectedBytes: get(&l.unexpectedBytes), UnexpectedBytesHigh: get(&l.bytesHigh),
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
	s.Current = l.waits()
	return s, nil
}

func unixTime(ns uint64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(ns))
}

// ops reads what was called.
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
			switch slot := atomic.LoadUint64(&c.slot); {
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

func (v *volume) read() Volume {
	return Volume{atomic.LoadUint64(&v.messages), atomic.LoadUint64(&v.bytes)}
}

// traffic reads what went where. What went eagerly is the sum over the peers, so that a message is counted in one place
// and sums never go back.
func (p *Page) traffic(s *Snapshot) error {
	var eager [2][Transports]Volume
	for i := range p.l.rows {
		r := &p.l.rows[i]
		peer := Peer{Rank: -1, Transport: Transport(i - PeerRows)}
		if i < PeerRows {
			name := atomic.LoadUint64(&p.l.names[i])
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
	for d := range eager {
		for t := range Transports {
			for pr := range Protocols {
				v := eager[d][t]
				if pr != Eager {
					v = p.l.others[d][t][pr-1].read()
				}
				if v != (Volume{}) {
					s.Traffic = append(s.Traffic, Traffic{Out + Direction(d), t, pr, v})
				}
			}
		}
	}
	return nil
}

// read returns the operation under way, if there is one. A writer that is quicker than the reader is read again; after a
// few times there is none to speak of, since operations follow one another without any that lasts.
func (c *current) read() (Current, bool) {
	for range 8 {
		head := atomic.LoadUint64(&c.head)
		if head&0xff != 1 {
			return Current{}, false
		}
		seq := head >> 16
		peer, tag, n := atomic.LoadUint64(&c.peer), atomic.LoadUint64(&c.tag), atomic.LoadUint64(&c.bytes)
		if uint32(peer>>32) != uint32(seq) || uint32(tag>>32) != uint32(seq) || uint16(n>>48) != uint16(seq) ||
			atomic.LoadUint64(&c.head) != head {
			continue
		}
		return Current{Seq: seq, Op: Op(head >> 8), Peer: int(int32(peer)), Tag: max(int(int32(tag)), -1), Bytes: n << 16 >> 16}, true
	}
	return Current{}, false
}
