package hook

// Options selects the faults to inject. Probabilities are between 0 (never) and 1 (always).
type Options struct {
	// Seed seeds the random numbers. 0 chooses a random seed.
	Seed uint64
	// Log is called by Wrap with the seed; use t.Logf. It may be nil.
	Log func(format string, args ...any)
	// OnOpen is called with every domain when it opens, so that a test can read its counters and cut it off. It may be called
	// concurrently. It may be nil.
	OnOpen func(self int, d *Domain)

	// Again is the probability that Send returns ErrAgain without trying.
	Again float64
	// Delay is the probability that an event is delayed, and with it all later events of the same peer.
	Delay float64
	// MaxDelay is the largest delay of an event, in Polls. 0 means 8.
	MaxDelay int
	// Interleave is the probability that the next event is that of a random peer instead of the next one in round-robin order.
	Interleave float64
	// Async is the probability that a Read or Write that completed immediately is reported as completed by an event instead.
	Async float64
	// Poison overwrites received bytes at the next Poll, when they are no longer valid.
	Poison bool

	// Fail is the probability that a Read or Write moves nothing and fails, immediately or by an event.
	Fail float64
	// Drop is the probability that Send loses its message and the peer: both ends receive PeerDown.
	Drop float64
	// Cut is the probability that Send cuts the connection silently: from then on nothing passes to or from this peer, and
	// no PeerDown event reports it.
	Cut float64
	// Reorder is the probability that a message overtakes the one before it from the same peer. No transport may do
	// that; it serves to check that a test detects it.
	Reorder float64

	// Share lets the domain implement fabric.SharedMemory if the wrapped one does. No faults are injected there.
	Share bool
}

// needsQueues reports whether events must pass through queues.
func (o *Options) needsQueues() bool {
	return o.Delay > 0 || o.Interleave > 0 || o.Async > 0 || o.Poison || o.Fail > 0 || o.Drop > 0 || o.Cut > 0 || o.Reorder > 0
}

// Counters counts the calls and events of a domain since it opened. Bytes include headers.
type Counters struct {
	Polls, EmptyPolls, Arms         uint64
	Sends, SentBytes                uint64 // accepted by the transport
	Again, ForcedAgain              uint64 // Sends refused by the transport, and by injection
	Dropped, CutSends               uint64 // Sends that lost their peer, and Sends into a cut connection
	Messages, MessageBytes          uint64 // returned by Poll
	Completions, PeerDowns          uint64 // events returned by Poll
	Delayed, Interleaved, Reordered uint64 // events
	CutEvents                       uint64 // events dropped from a cut connection
	Reads, ReadBytes                uint64 // started
	Writes, WrittenBytes            uint64 // started
	Async, Failed                   uint64 // Reads and Writes with the injected fault
}
