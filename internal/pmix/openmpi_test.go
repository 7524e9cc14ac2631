//go:build linux && !static && (amd64 || arm64)

package pmix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/openmpitest"
)

// actAs names the environment variable that makes this test binary a rank instead.
const actAs = "IBRUN_PMIX_TEST_RANK"

func TestMain(m *testing.M) {
	if how := os.Getenv(actAs); how != "" {
		if err := runRank(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runRank runs in the test binary if a real launcher has started it.
func runRank(how string) error {
	c, err := FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	if c == nil {
		return errors.New("no launcher found")
	}
	ctx := context.Background()
	if last := c.Rank() == c.Size()-1; last {
		switch how {
		case "abort":
			return c.Abort(7, "for a test")
		case "exit":
			os.Exit(5)
		}
	}
	if how != "exchange" {
		// The launcher must see the last process end first. It may fail the barrier of the others before it does.
		err := c.Barrier(ctx)
		time.Sleep(time.Minute) // until the launcher kills this process
		return fmt.Errorf("the launcher did not kill this process; PMIx_Fence returned: %v", err)
	}
	for round := range 2 {
		if err := exchange(ctx, c, fmt.Sprint("key-", round), 20000*round+1); err != nil {
			return err
		}
	}
	if _, err := c.Get((c.Rank()+1)%c.Size(), "nothing"); !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("a key that does not exist: %v", err)
	}
	app, errApp := c.AppNum()
	universe, errUniverse := c.UniverseSize()
	local, errLocal := c.NodeRanks()
	nodes, errNodes := c.Mapping()
	if err := errors.Join(errApp, errUniverse, errLocal, errNodes); err != nil {
		return err
	}
	if universe < 1 { // Open MPI does not count processes beyond the slots
		return fmt.Errorf("a universe of %d", universe)
	}
	fmt.Printf("rank %d of %d, program %d, node of %v, nodes %v\n", c.Rank(), c.Size(), app, local, nodes)
	return c.Finalize()
}

// exchange puts n bytes under a key and reads what the other processes have put.
func exchange(ctx context.Context, c *Client, key string, n int) error {
	value := func(rank int) []byte { return bytes.Repeat([]byte{byte(rank), 0}, n) }
	if err := errors.Join(c.Put(key, value(c.Rank())), c.Barrier(ctx)); err != nil {
		return err
	}
	for rank := range c.Size() {
		if got, err := c.Get(rank, key); err != nil || !bytes.Equal(got, value(rank)) {
			return fmt.Errorf("rank %d has put %.10x... of %d bytes, %v", rank, got, len(got), err)
		}
	}
	return nil
}

// TestUnderOpenMPI: processes of Open MPI's mpirun exchange values, and end the job with the right exit code.
func TestUnderOpenMPI(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	line := func(rank, size, app int) string {
		local := []int{0, 1, 2, 3}[:size]
		return fmt.Sprintf("rank %d of %d, program %d, node of %v, nodes %v\n", rank, size, app, local, make([]int, size))
	}
	for name, test := range map[string]struct {
		how  string
		args []string
		want []string
		code int
	}{
		"exchange": {"exchange", []string{"-n", "4", self},
			[]string{line(0, 4, 0), line(1, 4, 0), line(2, 4, 0), line(3, 4, 0)}, 0},
		"alone":        {"exchange", []string{"-n", "1", self}, []string{line(0, 1, 0)}, 0},
		"two programs": {"exchange", []string{"-n", "1", self, ":", "-n", "1", self}, []string{line(0, 2, 0), line(1, 2, 1)}, 0},
		"abort":        {"abort", []string{"-n", "3", self}, nil, 7},
		"exit":         {"exit", []string{"-n", "3", self}, nil, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := openmpitest.Run(t, []string{actAs + "=" + test.how}, test.args...)
			if code != test.code {
				t.Fatalf("exit code %d, want %d\n%s%s", code, test.code, stdout, stderr)
			}
			if got := slices.Sorted(strings.Lines(stdout)); test.want != nil && !slices.Equal(got, test.want) {
				t.Errorf("the output of the ranks:\n%s%s", stdout, stderr)
			}
		})
	}
}
