package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
)

// request is a JSON value on one line; a connection carries one request. Both sides ignore unknown fields.
type request struct {
	// Ranks requests the state of all ranks, and Stacks the goroutine stacks of some ranks. A response always has the job.
	Ranks  bool  `json:"ranks,omitempty"`
	Stacks []int `json:"stacks,omitempty"`
}

// response is one JSON value. The server closes the connection after it.
type response struct {
	Job    *Job           `json:"job"`
	Ranks  []Rank         `json:"ranks,omitempty"`
	Stacks map[int]string `json:"stacks,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// The maximum sizes of messages, in bytes.
const (
	maxRequest  = 64 << 10
	maxResponse = 64 << 20 // enough for a hundred thousand ranks
)

// errProtocol is the error for data that is not a message of this protocol.
var errProtocol = errors.New("invalid status message")

func decodeRequest(text []byte) (*request, error) {
	q := new(request)
	if err := json.Unmarshal(text, q); err != nil {
		return nil, fmt.Errorf("%w: %v", errProtocol, err)
	}
	return q, nil
}

func decodeResponse(text []byte) (*response, error) {
	a := new(response)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("%w: %v", errProtocol, err)
	}
	if a.Job == nil || a.Job.ID == "" || a.Job.Node < 0 || a.Job.Nodes <= a.Job.Node || a.Job.Size < a.Job.Here {
		return nil, fmt.Errorf("%w: its job is missing or invalid", errProtocol)
	}
	for i := range a.Ranks {
		if r := &a.Ranks[i]; r.Rank < 0 || r.Rank >= a.Job.Size {
			return nil, fmt.Errorf("%w: rank %d is out of range, the job has %d ranks", errProtocol, r.Rank, a.Job.Size)
		}
	}
	return a, nil
}
