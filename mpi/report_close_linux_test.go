package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
)

// failingClose is a domain whose Close closes it and returns an error.
type failingClose struct {
	fabric.Domain
	err error
}

func (u failingClose) Close() error { return errors.Join(u.Domain.Close(), u.err) }

// TestReportUnreleased: a transport does not release everything. A rank that ends right warns of it, and one that fails returns
// it beside its own error, without a warning. Finalize returns any other error of closing the transport.
func TestReportUnreleased(t *testing.T) {
	unreleased := fmt.Errorf("%w: a queue pair", fabric.ErrNotReleased)
	undelivered, notStarted := errors.New("no acknowledgement"), errors.New("the launcher has gone")
	for _, x := range []struct {
		started, closed error
		want            []error
		reports         int
	}{
		{nil, unreleased, nil, 1},
		{nil, undelivered, []error{undelivered}, 0},
		{notStarted, unreleased, []error{notStarted, unreleased}, 0},
	} {
		var reports []string
		at := &bootstrap.Process{
			Size: 1, Oversubscribed: true, Started: func() error { return x.started }, Finalized: func() error { return nil },
			Address: func(int) []byte { return nil },
			Nodes:   func() ([]int, error) { return []int{0}, nil },
			Open: func(ctx context.Context, c *fabric.Config, _ bootstrap.Thresholds) (fabric.Domain, error) {
				d, err := mem.NewHub(1).Transport().Open(ctx, c)
				return failingClose{d, x.closed}, err
			},
			Report: func(text string) { reports = append(reports, text) },
		}
		p, err := mpi.Init(bootstrap.WithProcess(t.Context(), at), nil)
		if err == nil {
			err = p.Finalize()
		}
		lost := slices.ContainsFunc(x.want, func(want error) bool { return !errors.Is(err, want) })
		if lost || (err != nil) != (x.want != nil) || len(reports) != x.reports {
			t.Errorf("start %v, close %v: the error is %v, and it reported %q", x.started, x.closed, err, reports)
		}
	}
}
