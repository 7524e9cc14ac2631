package report

import "time"

// Format is the version of the fields of [Report]. It changes when one of them goes or means something else, and not when
// there are more.
const Format = 1

// Report is a job in figures. Its fields are those of the JSON. Times are in seconds, sizes in bytes, shares from 0 to 1 of the
// time that a rank ran.
type Report struct {
	Format int     `json:"format"`
	Job    Summary `json:"job"`
	// Remarks are what the reader should know first, a sentence each.
	Remarks []string `json:"remarks"`
	// Slowest is the rank that the others wait for. It is missing if none stands out.
	Slowest *Slowest `json:"slowest,omitempty"`
	// Ranks are by number, and Nodes too.
	Ranks []RankLine `json:"ranks"`
	Nodes []Node     `json:"nodes"`
	// Operations are those of all ranks together, by operation and size.
	Operations []Operation `json:"operations"`
	// Traffic is what all ranks sent, by transport and protocol, and Pairs by sender and receiver.
	Traffic []Traffic `json:"traffic"`
	Pairs   []Pair    `json:"pairs"`
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
	// MPIShare and WaitingShare are means over the ranks that recorded something, of whom there are Recorded.
	Recorded     int     `json:"recorded"`
	MPIShare     float64 `json:"mpi_share"`
	WaitingShare float64 `json:"waiting_share"`
	Calls        uint64  `json:"calls"`
	// Messages and Bytes are what was sent, messages of collectives too.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// The states of a rank at the end.
const (
	Finalized  = "finalized"
	Unfinished = "not finalized" // it died, or left
	Silent     = "no record"     // it wrote none: IBRUN_PERF=off, or a program that does not use package mpi
	Unread     = "not readable"  // for a reason
)

// RankLine is one rank.
type RankLine struct {
	Rank    int    `json:"rank"`
	Node    int    `json:"node"`
	Program int    `json:"program"`
	State   string `json:"state"`
	// Problem is why there is no record.
	Problem string `json:"problem,omitempty"`
	PID     int    `json:"pid,omitempty"`
	// Wall is from when Init was done to Finalize or the end, and MPI the time within calls, of all its goroutines together.
	// Waiting is the part of it spent waiting for others. The shares are parts of Wall.
	Wall         float64 `json:"wall_seconds"`
	MPI          float64 `json:"mpi_seconds"`
	MPIShare     float64 `json:"mpi_share"`
	Waiting      float64 `json:"waiting_seconds"`
	WaitingShare float64 `json:"waiting_share"`
	Calls        uint64  `json:"calls"`
	// What it sent to and received from others.
	SentMessages     uint64 `json:"sent_messages"`
	SentBytes        uint64 `json:"sent_bytes"`
	ReceivedMessages uint64 `json:"received_messages"`
	ReceivedBytes    uint64 `json:"received_bytes"`
	// UnexpectedHigh is the most messages that were ever kept because they came before their receives.
	UnexpectedHigh  uint64 `json:"unexpected_high"`
	Retransmissions uint64 `json:"retransmissions"`
	PinnedHigh      uint64 `json:"pinned_high_bytes"`
	// Within are the calls that a rank which has not finalized was in at the end.
	Within []string `json:"within,omitempty"`
}

// Recorded tells whether there are figures of the rank.
func (r *RankLine) Recorded() bool { return r.State != Silent && r.State != Unread }

// Slowest is a rank that others wait for: it waits least.
type Slowest struct {
	Rank int `json:"rank"`
	// WaitingShare is how much of its time it waited, and OthersShare the median of the others.
	WaitingShare float64 `json:"waiting_share"`
	OthersShare  float64 `json:"others_waiting_share"`
	// Reasons tell how it differs from the others, a clause each.
	Reasons []string `json:"reasons"`
}

// Operation is a call with sizes of a class.
type Operation struct {
	Op string `json:"op"`
	// Class is the largest size in the class, 64 to 16Ki or more, and MaxBytes the same as a number, -1 if there is none.
	Class    string  `json:"size"`
	MaxBytes int     `json:"max_bytes"`
	Calls    uint64  `json:"calls"`
	Bytes    uint64  `json:"bytes"`
	Time     float64 `json:"seconds"`
	// The quantiles are missing where none was timed.
	P50  *float64 `json:"p50_seconds,omitempty"`
	P99  *float64 `json:"p99_seconds,omitempty"`
	P999 *float64 `json:"p999_seconds,omitempty"`
	Max  *float64 `json:"max_seconds,omitempty"`
}

// Traffic is what went over a transport by a protocol.
type Traffic struct {
	Transport string `json:"transport"`
	Protocol  string `json:"protocol"`
	Messages  uint64 `json:"messages"`
	Bytes     uint64 `json:"bytes"`
}

// Pair is what one rank sent to another. To or From is -1 for those together that a rank with very many peers does not count
// apart.
type Pair struct {
	From      int    `json:"from"`
	To        int    `json:"to"`
	Transport string `json:"transport"`
	Messages  uint64 `json:"messages"`
	Bytes     uint64 `json:"bytes"`
}
