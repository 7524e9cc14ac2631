package mpi_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
)

// unregistrable is a transport for which no memory can be registered.
type unregistrable struct{ fabric.Domain }

func (l unregistrable) Caps() fabric.Caps {
	c := l.Domain.Caps()
	c.Direct = false
	return c
}

func (unregistrable) Register([]byte) (fabric.Region, error) {
	return fabric.Region{}, fmt.Errorf("the limit is 64 KiB: %w", syscall.ENOMEM)
}

// TestReport: if memory cannot be registered, messages still arrive, and each rank warns its user once.
func TestReport(t *testing.T) {
	hub := mem.NewHub(2).Transport()
	nothing := func() error { return nil }
	var reports [2][]string
	errs := make([]error, 2)
	var ranks sync.WaitGroup
	for rank := range 2 {
		at := &bootstrap.Process{
			Rank: rank, Size: 2, Oversubscribed: true, Started: nothing, Finalized: nothing,
			Address: func(int) []byte { return nil },
			Nodes:   func() ([]int, error) { return make([]int, 2), nil },
			Open: func(ctx context.Context, c *fabric.Config, _ bootstrap.Thresholds) (fabric.Domain, error) {
				d, err := hub.Open(ctx, c)
				return unregistrable{d}, err
			},
			Report: func(text string) { reports[rank] = append(reports[rank], text) },
		}
		ranks.Go(func() {
			p, err := mpi.Init(bootstrap.WithProcess(t.Context(), at), nil)
			if err == nil {
				err = large(p)
			}
			if err == nil {
				err = p.Finalize()
			}
			errs[rank] = err
		})
	}
	ranks.Wait()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
		if len(reports[rank]) != 1 || !strings.Contains(reports[rank][0], "copied") || !strings.Contains(reports[rank][0], "64 KiB") {
			t.Errorf("rank %d reported %q", rank, reports[rank])
		}
	}
}
