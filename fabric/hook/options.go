package hook

// Options says what happens to the user of a domain. Probabilities are between 0, never, and 1, always.
type Options struct {
	// Seed is where all chance comes from. 0 draws one.
	Seed uint64
	// Log is told the seed by Wrap; t.Logf fits. Nil says nothing.
	Log func(format string, args ...any)
	// Opened is told of every domain when it opens, so that a test can count and cut. Domains may open at the same
	// time. It may be nil.
	Opened func(self int, d *Domain)

	// Again is the probability that a Send is answered ErrAgain without having been tried.
	Again float64
	// Delay is the probability that an event is held back, and with it what the same peer sends later.
	Delay float64
	// MaxDelay is for how many Polls an event is held back at most. 0 means 8.
	MaxDelay int
	// Mix is the probability that the next event is not taken from the peer whose turn it is but from any.
	Mix float64
	// Late is the probability that a Read or Write which was done at once is said to go on, and ends by an event.
	Late float64
	// Poison overwrites lent bytes when the next Poll ends the loan.
	Poison bool

	// Fail is the probability that a Read or Write moves nothing and fails, at once or by an event.
	Fail float64
	// Drop is the probability that a Send loses its message, and the peer with it: PeerDown follows, at both ends.
	Drop float64
	// Cut is the probability that a Send finds the line cut: from then on nothing passes to or from this peer, and
	// nobody is told.
	Cut float64
	// Shuffle is the probability that a message overtakes the one before it from the same peer. No transport may do
	// that; it is there to see whether a test would notice.
	Shuffle float64

	// Share lets the domain implement fabric.SharedMemory if the wrapped one does. No faults are injected there.
	Share bool
}

// queues tells whether events must pass through queues.
func (o *Options) queues() bool {
	return o.Delay > 0 || o.Mix > 0 || o.Late > 0 || o.Poison || o.Fail > 0 || o.Drop > 0 || o.Cut > 0 || o.Shuffle > 0
}

// Counters is what a domain has seen since it opened. Bytes count headers too.
type Counters struct {
	Polls, EmptyPolls, Arms  uint64
	Sends, SentBytes         uint64 // that the transport took
	Again, ForcedAgain       uint64 // Sends refused by the transport, and by chance
	Dropped, Swallowed       uint64 // Sends that lost their peer, and that went into a cut line
	Messages, MessageBytes   uint64 // handed to the user
	Dones, PeerDowns         uint64 // events handed to the user
	Delayed, Mixed, Shuffled uint64 // events
	Vanished                 uint64 // events out of a cut line
	Reads, ReadBytes         uint64 // that were started
	Writes, WrittenBytes     uint64 // that were started
	Late, Failed             uint64 // Reads and Writes that were made to
}
