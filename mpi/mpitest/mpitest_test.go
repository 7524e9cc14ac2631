package mpitest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
)

var errOwn = errors.New("the rank's own error")

func explode() { panic("boom") }

// TestFailures lets one rank fail in every possible manner while the others wait, also over a wrapped transport.
func TestFailures(t *testing.T) {
	wrapped := func(tr fabric.Transport) fabric.Transport {
		return hook.Wrap(tr, hook.Options{Seed: soaktest.Seed(t), Delay: 0.2})
	}
	for name, c := range map[string]struct {
		end  func(p *mpi.Process) error
		says []string // in the report
	}{
		"error":        {func(*mpi.Process) error { return errOwn }, []string{"rank 1", errOwn.Error()}},
		"panic":        {func(*mpi.Process) error { explode(); return nil }, []string{"rank 1", "boom", "mpitest.explode"}},
		"Goexit":       {func(*mpi.Process) error { runtime.Goexit(); return nil }, []string{"rank 1", "Goexit", "TestFailures"}},
		"Abort":        {func(p *mpi.Process) error { return p.Abort(7) }, []string{"rank 1", "Abort(7)", "TestFailures"}},
		"Abort unseen": {func(p *mpi.Process) error { _ = p.Abort(7); return nil }, []string{"rank 1", "Abort(7)"}},
	} {
		for _, o := range []Options{{}, {Wrap: wrapped}} {
			t.Run(fmt.Sprintf("%s, wrapped %v", name, o.Wrap != nil), func(t *testing.T) {
				others := make([]error, 4)
				failures := run(t, 4, o, func(p *mpi.Process) error {
					w := p.World()
					rank := w.Rank()
					if others[rank] = w.Barrier(); others[rank] != nil {
						return others[rank] // rank 1 was faster
					}
					x := make([]int, 20000)
					switch rank {
					case 0:
						_, others[rank] = mpi.Recv(w, x, mpi.AnySource, 1)
					case 1:
						return c.end(p)
					case 2:
						others[rank] = mpi.Send(w, x, 0, 2)
					case 3:
						others[rank] = w.Barrier()
					}
					return others[rank]
				})
				if len(failures) != 1 {
					t.Fatalf("%d failures are reported: %v", len(failures), failures)
				}
				for _, part := range c.says {
					if !strings.Contains(failures[0].Error(), part) {
						t.Errorf("the report does not say %q:\n%v", part, failures[0])
					}
				}
				for _, rank := range []int{0, 2, 3} {
					if !errors.Is(others[rank], mpi.ErrProcFailed) {
						t.Errorf("rank %d: %v", rank, others[rank])
					}
				}
				if name == "error" && !errors.Is(failures[0], errOwn) {
					t.Errorf("the report does not wrap the error: %v", failures[0])
				}
			})
		}
	}
}

// TestEarlyReturn: Finalize waits for other ranks after a rank has returned, and the others continue.
func TestEarlyReturn(t *testing.T) {
	Run(t, 3, func(p *mpi.Process) error {
		w := p.World()
		if w.Rank() == 0 {
			return nil
		}
		_, err := mpi.Sendrecv(w, []int{1}, 3-w.Rank(), 0, []int{0}, 3-w.Rank(), 0)
		return errors.Join(err, p.Finalize())
	})
}

// TestSeveral: ranks that fail independently are all reported; a rank that only noticed another's failure is not.
func TestSeveral(t *testing.T) {
	failures := run(t, 3, Options{}, func(p *mpi.Process) error {
		if p.World().Rank() == 2 {
			return p.World().Barrier()
		}
		return errOwn
	})
	if len(failures) != 2 {
		t.Errorf("%v", failures)
	}
}
