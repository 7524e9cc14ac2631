//go:build !linux

package inspect

import (
	"context"
	"errors"
)

// errSystem says what is missing: where ibrun starts no jobs there are none to look at.
var errSystem = errors.New("looking at jobs needs Linux, as starting them does")

// Jobs finds none on this system, and says so.
func Jobs(context.Context) ([]Job, error) { return nil, errSystem }

// Remote is a source that only fails on this system.
func (j Job) Remote() Source { return nowhere{j} }

type nowhere struct{ job Job }

func (n nowhere) Job() Job { return n.job }

func (nowhere) Ranks(context.Context) ([]Rank, error) { return nil, errSystem }

func (nowhere) Stacks(context.Context, []int) (map[int]string, error) { return nil, errSystem }
