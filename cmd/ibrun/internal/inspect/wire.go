package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
)

// question is what is asked over the socket of a job, one to a connection: a JSON value on a line. Fields that are not known are
// skipped, on both sides.
type question struct {
	// Ranks asks for all ranks of the node, and Stacks for what the goroutines of some do. With neither it is the job that is
	// told.
	Ranks  bool  `json:"ranks,omitempty"`
	Stacks []int `json:"stacks,omitempty"`
}

// answer is one JSON value, and ends the connection.
type answer struct {
	Job    *Job           `json:"job"`
	Ranks  []Rank         `json:"ranks,omitempty"`
	Stacks map[int]string `json:"stacks,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// Bounds of what is read.
const (
	maxQuestion = 64 << 10
	maxAnswer   = 64 << 20 // a hundred thousand ranks
)

// errTalk says that the other side does not speak as an ibrun does.
var errTalk = errors.New("it does not speak as an ibrun does")

func decodeQuestion(text []byte) (*question, error) {
	q := new(question)
	if err := json.Unmarshal(text, q); err != nil {
		return nil, fmt.Errorf("%w: %v", errTalk, err)
	}
	return q, nil
}

func decodeAnswer(text []byte) (*answer, error) {
	a := new(answer)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("%w: %v", errTalk, err)
	}
	if a.Job == nil || a.Job.ID == "" || a.Job.Node < 0 || a.Job.Nodes <= a.Job.Node || a.Job.Size < a.Job.Here {
		return nil, fmt.Errorf("%w: it tells of no job", errTalk)
	}
	for i := range a.Ranks {
		if r := &a.Ranks[i]; r.Rank < 0 || r.Rank >= a.Job.Size {
			return nil, fmt.Errorf("%w: rank %d of %d", errTalk, r.Rank, a.Job.Size)
		}
	}
	return a, nil
}
