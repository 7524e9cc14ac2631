package protocol

import (
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/internal/pmi"
)

// Order goes from ibrun to its agent, and from node 0 to the other nodes. Exactly one field is set. The end of the
// stream means that who gave the orders has died.
type Order struct {
	Start    *Task                `json:",omitempty"` // only to an agent, and first
	Signal   int                  `json:",omitempty"` // pass on to all ranks
	End      *EndOrder            `json:",omitempty"`
	Parcel   *pmi.ExchangeMessage `json:",omitempty"` // for the PMI server
	Stacks   []int                `json:",omitempty"` // ranks that are to tell what their goroutines do; only to an agent
	Bar      *Progress            `json:",omitempty"` // to be drawn; only to an agent
	Question *Question            `json:",omitempty"` // only to a node, as is Answer
	Answer   *Answer              `json:",omitempty"`

	Welcome *Welcome `json:",omitempty"`        // only to a node, and first
	Outcome *Outcome `json:"Verdict,omitempty"` // only to a node, and last
}

// Question is what node 0 asks another node, or that node 0: what all ranks do that the other can tell of, or what the goroutines
// of some of them do.
type Question struct {
	ID      uint64        // by who asks
	Stacks  []int         `json:",omitempty"`
	Timeout time.Duration `json:"Patience"` // for how long the answer is waited for, or a little longer
}

// Answer is an answer, or a part of one.
type Answer struct {
	ID     uint64         // of the question
	Ranks  []inspect.Rank `json:",omitempty"`
	Stacks map[int]string `json:",omitempty"` // by rank
	More   bool           `json:",omitempty"` // other parts follow
}

// EndOrder tells an agent to end its ranks and then itself.
type EndOrder struct {
	Grace        time.Duration // between SIGTERM and SIGKILL; 0: SIGKILL at once
	LastOutputOf int           `json:"Tail"` // the rank whose last output is wanted; -1: none
	// Output is how long the ranks' output may take to be passed on once they are dead. 0: as long as it needs.
	OutputTimeout time.Duration `json:"Output,omitempty"`
}

// Welcome is what node 0 tells the others once all are there.
type Welcome struct {
	JobID string
	// Names are those of the nodes.
	Names []string
	// Salt makes this job's secret out of that of the nodes, which so need not travel.
	Salt       []byte
	MasterPort int
	Report     bool `json:",omitempty"` // the nodes tell node 0 what a report needs
}

// Outcome is node 0's last word: the exit code of the job, and why.
type Outcome struct {
	Code  int
	Lines []string `json:",omitempty"`
}
