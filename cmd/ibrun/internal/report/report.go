package report

import "time"

// Format is the version of the fields of [Report]. It changes when a field is removed or changes its meaning, but not when a
// field is added.
const Format = 1

// Report has the figures of a job. Its fields are those of the JSON. Times are in seconds, sizes in bytes. Shares are fractions
// of the time that a rank ran, from 0 to 1.
type Report struct {
	Format int     `json:"format"`
	Job    Summary `json:"job"`
	// Remarks are what the reader should know first, a sentence each.
	Remarks []string `json:"remarks"`
	// Slowest is the rank that the others wait for. It is nil if the ranks wait about equally long.
	Slowest *Slowest `json:"slowest,omitempty"`
	// Ranks are indexed by rank, and Nodes by node number.
	Ranks []RankLine `json:"ranks"`
	Nodes []Node     `json:"nodes"`
	// Operations are the sums over all ranks, by operation and size class.
	Operations []Operation `json:"operations"`
	// Traffic is the sum of what all ranks sent, by transport and protocol. Pairs is the same by sender and receiver.
	Traffic []Traffic `json:"traffic"`
	Pairs   []Pair    `json:"pairs"`
	// Long is the sum of what all ranks sent in messages that are not eager, by transport, length and protocol.
	Long []LongMessages `json:"long_messages"`
	// Comms are the communicators to which the program has given names, in the order of names.
	Comms []Comm `json:"communicators,omitempty"`
}

// Comm is a name of communicators, and the ranks of the job that have given it.
type Comm struct {
	Name  string `json:"name"`
	Ranks []int  `json:"ranks"`
}

// Summary is the job as a whole.
type Summary struct {
	ID       string    `json:"id"`
	Version  string    `json:"ibrun"`
	Programs []Program `json:"programs"`
	Began    time.Time `json:"began"`
	Wall     float64   `json:"wall_seconds"`
	Code     int       `json:"exit_code"`
	Failure  []string  `json:"failure,omitempty"`
	Ranks    int       `json:"ranks"`
	// Recorded is the number of ranks that recorded something. MPIShare and WaitingShare are means over these.
	Recorded     int     `json:"recorded"`
	MPIShare     float64 `json:"mpi_share"`
	WaitingShare float64 `json:"waiting_share"`
	Calls        uint64  `json:"calls"`
	// Messages and Bytes count what was sent, including the messages of collectives.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// The states of a rank at the end.
const (
	Finalized  = "finalized"
	Unfinished = "not finalized" // it died, or exited without Finalize
	NoRecord   = "no record"     // IBRUN_PERF=off is set, or the program does not use package mpi
	Unreadable = "not readable"  // see Problem
)

// RankLine has the figures of one rank.
type RankLine struct {
	Rank    int    `json:"rank"`
	Node    int    `json:"node"`
	Program int    `json:"program"`
	State   string `json:"state"`
	// Problem is why there is no record.
	Problem string `json:"problem,omitempty"`
	PID     int    `json:"pid,omitempty"`
	// Wall is the time from the end of Init to Finalize or the end of the process. MPI is the time within calls, summed over its
	// goroutines. Waiting is the part of MPI spent waiting for other ranks. The shares are relative to Wall.
	Wall         float64 `json:"wall_seconds"`
	MPI          float64 `json:"mpi_seconds"`
	MPIShare     float64 `json:"mpi_share"`
	Waiting      float64 `json:"waiting_seconds"`
	WaitingShare float64 `json:"waiting_share"`
	Calls        uint64  `json:"calls"`
	// Messages exchanged with other ranks, and their payload.
	SentMessages     uint64 `json:"sent_messages"`
	SentBytes        uint64 `json:"sent_bytes"`
	ReceivedMessages uint64 `json:"received_messages"`
	ReceivedBytes    uint64 `json:"received_bytes"`
	// UnexpectedHigh is the maximum number of unexpected messages that were stored at one time.
	UnexpectedHigh  uint64 `json:"unexpected_high"`
	Retransmissions uint64 `json:"retransmissions"`
	// Reconnections are broken connections that were made again; Changes is how often received bytes had been changed.
	Reconnections uint64 `json:"reconnections,omitempty"`
	Changes       uint64 `json:"changes,omitempty"`
	PinnedHigh    uint64 `json:"pinned_high_bytes"`
	// LastCalls are the calls that a rank without Finalize was in at the end.
	LastCalls []string `json:"within,omitempty"`
}

// Recorded reports whether there are figures of the rank.
func (l *RankLine) Recorded() bool { return l.State != NoRecord && l.State != Unreadable }

// Slowest is the rank that waits least, because the others wait for it.
type Slowest struct {
	Rank int `json:"rank"`
	// WaitingShare is the share of its time that it waited, and OthersShare the median of the other ranks.
	WaitingShare float64 `json:"waiting_share"`
	OthersShare  float64 `json:"others_waiting_share"`
	// Reasons are the differences between it and the others, a clause each.
	Reasons []string `json:"reasons"`
}

// Operation has the figures of one operation with sizes of one class.
type Operation struct {
	Op string `json:"op"`
	// Class is the largest size in the class as text, and MaxBytes the same as a number, -1 if there is no limit.
	Class    string  `json:"size"`
	MaxBytes int     `json:"max_bytes"`
	Calls    uint64  `json:"calls"`
	Bytes    uint64  `json:"bytes"`
	Time     float64 `json:"seconds"`
	// The quantiles are nil if no call was timed.
	P50  *float64 `json:"p50_seconds,omitempty"`
	P99  *float64 `json:"p99_seconds,omitempty"`
	P999 *float64 `json:"p999_seconds,omitempty"`
	Max  *float64 `json:"max_seconds,omitempty"`
}

// Traffic is the traffic over one transport by one protocol.
type Traffic struct {
	Transport string `json:"transport"`
	Protocol  string `json:"protocol"`
	Messages  uint64 `json:"messages"`
	Bytes     uint64 `json:"bytes"`
}

// LongMessages are the messages over one transport with lengths of one class that took one protocol.
type LongMessages struct {
	Transport string `json:"transport"`
	// MaxBytes is the largest length in the class, a power of two; -1 if there is no limit.
	MaxBytes int    `json:"max_bytes"`
	Protocol string `json:"protocol"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// Pair is what one rank sent to another. A rank counts a limited number of peers separately: From or To is -1 for the sum of all
// others.
type Pair struct {
	From      int    `json:"from"`
	To        int    `json:"to"`
	Transport string `json:"transport"`
	Messages  uint64 `json:"messages"`
	Bytes     uint64 `json:"bytes"`
}
