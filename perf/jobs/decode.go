package jobs

import (
	"encoding/json"
	"fmt"

	"github.com/ibrun/ibrun/internal/jobsocket"
	"github.com/ibrun/ibrun/perf"
)

type response = jobsocket.Response[Job, Rank]

// decode decodes and checks a response. Of a response of another version it returns only the job, and a *VersionError.
func decode(text []byte) (*response, error) {
	// What has another meaning in other versions is decoded only after their numbers have been compared.
	var head struct {
		Version, Layout uint64
		Job             *Job
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	j := head.Job
	if j == nil || j.ID == "" || j.Node < 0 || j.Nodes <= j.Node || j.Here < 0 || j.Size < j.Here {
		return nil, fmt.Errorf("%w: its job is missing or invalid", ErrMessage)
	}
	switch only := (&response{Job: j}); {
	case head.Version != jobsocket.Version:
		return only, &VersionError{Job: j.ID, Got: head.Version, Want: jobsocket.Version}
	case head.Layout != 0 && head.Layout != perf.Version:
		return only, &VersionError{Job: j.ID, Got: head.Layout, Want: perf.Version}
	}
	a := new(response)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	for i := range a.Ranks {
		if r := a.Ranks[i].Rank; r < 0 || r >= j.Size {
			return nil, fmt.Errorf("%w: rank %d is out of range, the job has %d ranks", ErrMessage, r, j.Size)
		}
	}
	for _, s := range a.Snapshots {
		if s == nil || s.Rank < 0 || s.Rank >= j.Size || s.Size != j.Size {
			return nil, fmt.Errorf("%w: a snapshot is missing, or not of a rank of the job", ErrMessage)
		}
	}
	return a, nil
}
