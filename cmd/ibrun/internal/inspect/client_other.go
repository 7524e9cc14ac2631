//go:build !linux

package inspect

import (
	"context"
	"errors"
)

// errUnsupported is returned on systems where ibrun cannot start jobs.
var errUnsupported = errors.New("starting and inspecting jobs needs Linux")

// Jobs returns an error on this system.
func Jobs(context.Context) ([]Job, error) { return nil, errUnsupported }

// Remote returns a source whose methods return an error on this system.
func (j Job) Remote() Source { return unsupportedSource{j} }

type unsupportedSource struct{ job Job }

func (n unsupportedSource) Job() Job { return n.job }

func (unsupportedSource) Ranks(context.Context) ([]Rank, error) { return nil, errUnsupported }

func (unsupportedSource) Stacks(context.Context, []int) (map[int]string, error) {
	return nil, errUnsupported
}
