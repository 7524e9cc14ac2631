package posting

// Rail is how much may be in flight over one device, and how much is.
type Rail struct {
	Index       int            // of the rail
	Piece       int            // largest RDMA read or write, in bytes
	Entries     int            // scatter/gather entries of a request
	Limit       [NumShares]int // requests that may be in flight on a queue pair, by share
	MaxInFlight int            // requests that may be in flight on all: the completion queue must have room for them
	// MaxUnsignaled is how many requests in a row have one completion, at most. Those without fill
	// no share of the queue: a message that found no room would wait for a completion that never
	// comes.
	MaxUnsignaled int
	// SignalAll is how many requests are in flight over the first rail when each further message
	// has a completion. One without keeps its place and its slot until a later request of the same
	// queue pair completes, and there may be thousands of queue pairs. So the other half of the
	// room is always left for requests that complete.
	SignalAll int
	Shared    bool // messages arrive over an SRQ
	// KeepsCompletions: the device keeps the completions of queue pairs that are closed, so the
	// last ones need not be waited for.
	KeepsCompletions bool

	Lost     bool // the device is lost, so no completion is waited for; of the goroutine that calls Poll
	inFlight int  // posted requests that have not completed; guarded by Poster.Mu
}

// Share is a purpose of requests. Each purpose may use a share of the send queue, so that something
// is left for the next ones.
type Share uint8

// The shares.
const (
	ShareMessages  Share = iota // data messages
	ShareTransfers              // pieces of transfers
	ShareAll                    // control messages, messages that are sent again
	NumShares
)

// maxUnsignaled: of so many requests in a row, at least one has a completion; see also
// Rail.MaxUnsignaled.
const maxUnsignaled = 8

// SetDepth sets the limits for queue pairs that take so many requests: of 64, the shares have 40,
// 56 and 64.
func (r *Rail) SetDepth(depth int) {
	r.Limit = [...]int{depth * 5 / 8, depth * 7 / 8, depth}
	r.MaxUnsignaled = min(maxUnsignaled, r.Limit[ShareMessages])
}

// InFlight returns how many requests are in flight.
func (r *Rail) InFlight() int { return r.inFlight }
