package mpi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestThresholds: a threshold in Config takes effect, and overrides the variable. A rendezvous send waits for its receive, and
// an eager send does not.
func TestThresholds(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "tcp")
	t.Setenv("IBRUN_TCP_INTERFACES", "lo")
	for _, c := range []struct {
		variable string
		field    int
		atOnce   bool
	}{{"", 0, true}, {"100", 0, false}, {"", 100, false}, {"100", 10000, true}} {
		t.Setenv("IBRUN_TCP_EAGER", c.variable)
		o := mpitest.Options{Config: mpi.Config{Thresholds: mpi.Thresholds{TCPEager: c.field}}}
		mpitest.RunWith(t, 2, o, func(p *mpi.Process) error {
			w, x := p.World(), make([]byte, 4000)
			if w.Rank() == 1 {
				// It receives the first message only after the other rank has looked.
				if err := w.Barrier(); err != nil {
					return err
				}
				_, err := mpi.Recv(w, []byte{0}, 0, 1)
				_, err1 := mpi.Recv(w, x, 0, 0)
				return errors.Join(err, err1)
			}
			r, err := mpi.Isend(w, x, 1, 0)
			if err != nil {
				return err
			}
			if err := w.Barrier(); err != nil {
				return err
			}
			_, done, err := r.Test()
			if err == nil && done != c.atOnce {
				err = fmt.Errorf("variable %q, field %d: sent %v", c.variable, c.field, done)
			}
			err = errors.Join(err, mpi.Send(w, []byte{0}, 1, 1))
			if !done {
				_, err1 := r.Wait()
				err = errors.Join(err, err1)
			}
			return err
		})
	}
}

// TestThresholdsRefused: an invalid threshold is an error of Init that names it.
func TestThresholdsRefused(t *testing.T) {
	_, err := mpi.Init(t.Context(), &mpi.Config{Thresholds: mpi.Thresholds{RDMAPiece: -1}})
	if err == nil || !strings.Contains(err.Error(), "Thresholds.RDMAPiece is -1") {
		t.Errorf("got %v", err)
	}
}
