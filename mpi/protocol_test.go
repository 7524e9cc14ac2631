package mpi_test

import (
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
	"github.com/ibrun/ibrun/perf"
)

// TestNamedProtocol: a long message takes the protocol that IBRUN_PROTOCOL names, or that the hint of its communicator names,
// which has precedence. The recorded traffic shows it at both ranks.
func TestNamedProtocol(t *testing.T) {
	const bytes = 1 << 20
	for _, c := range []struct {
		variable, hint string
		want           perf.Protocol
	}{
		{"parts", "auto", perf.Parts}, {"read", "auto", perf.Read}, {"copied", "auto", perf.Copied},
		{"auto", "parts", perf.Parts}, {"auto", "read", perf.Read}, {"auto", "copied", perf.Copied},
		{"read", "copied", perf.Copied}, {"copied", "parts", perf.Parts},
	} {
		t.Run(c.variable+", "+c.hint, func(t *testing.T) {
			t.Setenv("IBRUN_PROTOCOL", c.variable)
			mpitest.Run(t, 2, func(p *mpi.Process) error {
				w := p.World()
				if err := w.SetInfo(infoOf(protocol, c.hint)); err != nil {
					return err
				}
				direction, buf := perf.Out, make([]byte, bytes)
				var err error
				if w.Rank() == 0 {
					err = mpi.Send(w, buf, 1, 0)
				} else {
					direction = perf.In
					_, err = mpi.Recv(w, buf, 0, 0)
				}
				if err != nil {
					return err
				}
				s, err := p.Recorded()
				if err != nil {
					return err
				}
				for _, x := range s.Traffic {
					if x.Direction == direction && x.Protocol == c.want && x.Bytes >= bytes {
						return nil
					}
				}
				return fmt.Errorf("no megabyte by %v: %+v", c.want, s.Traffic)
			})
		})
	}
}
