package mpi_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/perf"
)

func hasName(c *mpi.Comm, want string) error {
	got, err := c.Name()
	return errors.Join(err, check(got == want, "the name is %q, want %q", got, want))
}

func TestName(t *testing.T) {
	inWorlds(t, 2, map[string]func(p *mpi.Process) error{
		"S8-01": func(p *mpi.Process) error {
			return errors.Join(hasName(p.World(), "MPI_COMM_WORLD"), hasName(p.Self(), "MPI_COMM_SELF"))
		},
		"S8-02": func(p *mpi.Process) error { // names are local, kept as they are, and not copied
			w := p.World()
			c, err := w.Dup()
			if err := errors.Join(err, hasName(c, ""), c.SetName("  ocean\n")); err != nil {
				return err
			}
			d, err := c.Dup()
			return errors.Join(err, hasName(c, "  ocean\n"),
				hasName(d, ""), c.SetName("x"), hasName(c, "x"), c.SetName(""), hasName(c, ""),
				w.SetName("all"), hasName(w, "all"), d.Free(), c.Free())
		},
		"S8-03": func(p *mpi.Process) error { // cut, at the beginning of a character
			w := p.World()
			long, wide := strings.Repeat("x", 200), strings.Repeat("x", mpi.MaxObjectName-2)+"\u4e16\u754c"
			return errors.Join(w.SetName(long), hasName(w, long[:mpi.MaxObjectName]), w.SetName(wide),
				hasName(w, wide[:mpi.MaxObjectName-2]))
		},
		"S8-04": func(p *mpi.Process) error {
			c, err := p.World().Dup()
			if err := errors.Join(err, c.Free()); err != nil {
				return err
			}
			_, errName := c.Name()
			return errors.Join(ofClass(c.SetName("x"), mpi.ErrComm), ofClass(errName, mpi.ErrComm),
				ofClass((*mpi.Comm)(nil).SetName(""), mpi.ErrComm))
		},
		"S8-05": shownName,
	})
}

// shownName: a rank that waits is recorded with the name of the communicator.
func shownName(p *mpi.Process) error {
	c, err := p.World().Dup()
	if err := errors.Join(err, c.SetName("ocean")); err != nil {
		return err
	}
	if c.Rank() == 1 {
		x := []int{0}
		_, err := mpi.Recv(c, x, 0, 7)
		return errors.Join(err, c.Barrier(), c.Free())
	}
	begun := make(chan error, 1)
	go func() { // waits for rank 1, which waits for this rank's message
		_, err := mpi.Recv(c, []int{0}, mpi.AnySource, 8)
		begun <- err
	}()
	var now []perf.Current
	for len(now) == 0 { // for ever, if the receive never begins
		s, err := p.Recorded()
		if err != nil {
			return err
		}
		now = s.Current
		runtime.Gosched()
	}
	err = check(now[0].Comm == "ocean" && now[0].Op == perf.Recv, "in progress: %+v", now)
	return errors.Join(err, mpi.Send(c, []int{1}, 0, 8), <-begun, mpi.Send(c, []int{1}, 1, 7), c.Barrier(), c.Free())
}
