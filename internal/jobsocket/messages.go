package jobsocket

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/perf"
)

// Version is the version of the messages. It is increased when a field gets another meaning or is removed. The job in a response
// is the same in all versions, so a client can list jobs of other versions.
const Version = 1

// Timeout bounds one request, also if the ibrun at the other end is stopped.
const Timeout = 3 * time.Second

// The maximum sizes of messages, in bytes.
const (
	MaxRequest  = 64 << 10
	MaxResponse = 64 << 20 // enough for a hundred thousand ranks, or the snapshots of some hundred
)

// Errors of both sides.
var (
	// ErrMessage is returned for data that is not a message of this protocol.
	ErrMessage = errors.New("invalid status message")
	// ErrRefused is returned for a directory, a socket or a peer that is not only this user's.
	ErrRefused = errors.New("refused")
)

// Request says what a response shall have in addition to the job.
type Request struct {
	// Ranks requests the state of all ranks, Snapshots the snapshots of those on this node, and Stacks the goroutine stacks of some
	// ranks.
	Ranks     bool  `json:"ranks,omitempty"`
	Snapshots bool  `json:"snapshots,omitempty"`
	Stacks    []int `json:"stacks,omitempty"`
}

// Response has the types Job and Rank of package jobs as parameters, because that package imports this one.
type Response[Job, Rank any] struct {
	Version uint64 `json:"version"`
	Job     *Job   `json:"job"`
	Ranks   []Rank `json:"ranks,omitempty"`
	// Layout is [perf.Version] of the server. Snapshots of another layout can have other numbers for operations.
	Layout    uint64           `json:"layout,omitempty"`
	Snapshots []*perf.Snapshot `json:"snapshots,omitempty"`
	Stacks    map[int]string   `json:"stacks,omitempty"` // by rank
	Error     string           `json:"error,omitempty"`
}

// DecodeRequest decodes a request. Its errors are ErrMessage.
func DecodeRequest(text []byte) (*Request, error) {
	q := new(Request)
	if err := json.Unmarshal(text, q); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return q, nil
}
