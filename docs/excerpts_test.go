package docs

//lint:file-ignore SA4006 pages show calls without the handling of each error

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestExcerpts runs the parts of programs that pages quote.
func TestExcerpts(t *testing.T) {
	for name, f := range map[string]func(*mpi.Process) error{"topologies.md": topology, "hints.md": hints, "live.md": progress,
		"coming-from-grpc.md": service} {
		t.Run(name, func(t *testing.T) { mpitest.Run(t, 12, f) })
	}
}

// topology exchanges the edges of a grid: what comes from above is the rank above.
func topology(p *mpi.Process) error {
	const ny, nx = 2, 3
	world := p.World()
	cells := make([]float64, (ny+2)*(nx+2))
	for i := range cells {
		cells[i] = float64(world.Rank())
	}
	// Errors are checked at the end, so that the page shows the calls.
	dims, err := mpi.DimsCreate(world.Size(), 0, 0)       // 4 3 for 12 ranks
	grid, err := world.CartCreate(dims, nil, mpi.Reorder) // nil: no dimension is periodic
	up, down, err := grid.CartShift(0, 1)                 // ProcNull beyond the edge
	left, right, err := grid.CartShift(1, 1)

	a := mpi.ArrayOf(cells, ny+2, nx+2) // ny by nx cells, and the edges of the neighbors around them
	_, err = grid.Sendrecv(a.Row(1), up, 0, a.Row(ny+1), down, 0)
	_, err = grid.Sendrecv(a.Row(ny), down, 0, a.Row(0), up, 0)
	_, err = grid.Sendrecv(a.Col(1), left, 0, a.Col(nx+1), right, 0)
	_, err = grid.Sendrecv(a.Col(nx), right, 0, a.Col(0), left, 0)
	if err != nil {
		return err
	}
	for neighbor, ghost := range map[int]float64{
		up: a.At(0, 1), down: a.At(ny+1, 1), left: a.At(1, 0), right: a.At(1, nx+1),
	} {
		if neighbor != mpi.ProcNull && ghost != float64(neighbor) {
			return fmt.Errorf("rank %d: a ghost cell of %d is %g", grid.Rank(), neighbor, ghost)
		}
	}
	return grid.Free()
}

// hints makes a communicator with a hint.
func hints(p *mpi.Process) error {
	world := p.World()
	info := &mpi.Info{}
	info.Set("mpi_assert_no_any_source", "true")
	fast, err := world.DupWithInfo(info)
	now, err := fast.GetInfo() // all hints, with the defaults of those that were not given
	if err != nil {
		return err
	}
	value, ok := now.Get("mpi_assert_no_any_source")
	if !ok || value != "true" {
		err = fmt.Errorf("the hint is %q, %v", value, ok)
	}
	return errors.Join(err, fast.Free())
}

// progress reports how far a program is.
func progress(p *mpi.Process) error {
	const steps = 3
	done := 0
	compute := func() { done++ }
	for i := range steps {
		compute()
		p.Progress(i+1, steps)
	}
	if done != steps {
		return fmt.Errorf("%d steps", done)
	}
	return nil
}

// service makes calls to rank 0 from two goroutines of each rank.
func service(p *mpi.Process) error {
	world := p.World()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served := make(chan error, 1)
	if world.Rank() == 0 {
		go func() { served <- serve(ctx, world) }()
	}
	var calls atomic.Int32
	failed := make(chan error, 2)
	for i := range 2 {
		go func() {
			square, err := call(ctx, world, &calls, int64(world.Rank()+i))
			if want := int64(world.Rank()+i) * int64(world.Rank()+i); err == nil && square != want {
				err = fmt.Errorf("the answer is %d, want %d", square, want)
			}
			failed <- err
		}()
	}
	err := errors.Join(<-failed, <-failed, world.Barrier())
	stop()
	if world.Rank() == 0 {
		err = errors.Join(err, <-served)
	}
	return err
}

const tagCall = 0

type request struct {
	Reply int32 // the tag of the answer
	X     int64
}

// serve answers calls until ctx ends.
func serve(ctx context.Context, world *mpi.Comm) error {
	for m, err := range mpi.Messages[request](ctx, world, mpi.AnySource, tagCall) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		r := m.Data[0]
		if err := mpi.SendOne(world, r.X*r.X, m.Source, int(r.Reply)); err != nil {
			return err
		}
	}
	return nil
}

// call asks rank 0. Each call of this rank has a tag of its own, so any number of goroutines may call.
func call(ctx context.Context, world *mpi.Comm, calls *atomic.Int32, x int64) (int64, error) {
	reply := tagCall + calls.Add(1)
	if err := mpi.SendContext(ctx, world, []request{{reply, x}}, 0, tagCall); err != nil {
		return 0, err
	}
	answer, _, err := mpi.RecvOneContext[int64](ctx, world, 0, int(reply))
	return answer, err
}
