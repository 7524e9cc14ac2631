package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// hearLeft lets the last rank finalize and exit. The others have no connection to it, and wait until ibrun says that it has left.
func hearLeft() error {
	c, err := pmi.FromEnv(os.Getenv)
	if err != nil || c == nil {
		return fmt.Errorf("no launcher: %w", err)
	}
	last := c.Size() - 1
	if c.Rank() == last {
		return c.Finalize()
	}
	link, _, err := ranklink.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	if err := link.Send(ranklink.KindStarted, nil); err != nil {
		return err
	}
	for {
		m, err := link.Recv(context.Background())
		if err != nil {
			return err
		}
		var left ranklink.Left
		if m.Kind != ranklink.KindLeft {
			continue
		}
		if err := m.Decode(&left); err != nil {
			return err
		}
		if slices.Contains(left.Ranks, last) {
			fmt.Println("ready", os.Getpid())
			return c.Finalize()
		}
	}
}

// TestLeftHeard: every rank receives the announcement which ranks have left, on one node and on several.
func TestLeftHeard(t *testing.T) {
	t.Parallel()
	startJob(t, 2, "-n", "3", "rank", "hear-left").wantCode(0, "")
	newNodes(t, 2).start(0, "-n", "4", "rank", "hear-left").wantCode(0, "")
}
