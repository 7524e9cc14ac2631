// Command heat computes how a plate cools. Each rank has some rows of it. A cell becomes the mean of its four neighbors, so a
// rank needs the outer rows of the ranks beside it: the halo.
package main

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/mpi"
)

const (
	rows, cols = 120, 100 // of the whole plate
	steps      = 200
)

func main() {
	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		world := p.World()
		heat, err := cool(world)
		if err != nil {
			return err
		}
		if world.Rank() == 0 {
			fmt.Printf("%d ranks: heat %.6f\n", world.Size(), heat)
		}
		return nil
	})
}

// cool returns the heat of the plate after all steps. The number of ranks divides that of the rows.
func cool(world *mpi.Comm) (heat float64, err error) {
	n := rows / world.Size()
	plate, next := newRows(n), newRows(n)
	for range steps {
		if err := exchange(world, plate); err != nil {
			return 0, err
		}
		for i := 1; i <= n; i++ {
			for j := 1; j <= cols; j++ {
				next[i][j] = (plate[i-1][j] + plate[i+1][j] + plate[i][j-1] + plate[i][j+1]) / 4
			}
		}
		plate, next = next, plate
	}
	for _, row := range plate[1 : n+1] {
		for _, cell := range row {
			heat += cell
		}
	}
	return mpi.AllreduceOne(world, heat, mpi.Sum)
}

// exchange sends the outer rows to the ranks above and below, and receives theirs into the halo. Beyond the edge of the plate is
// mpi.ProcNull: messages to and from it do nothing, and the halo stays cold.
func exchange(world *mpi.Comm, plate [][]float64) error {
	n := len(plate) - 2
	up, down := world.Rank()-1, world.Rank()+1
	if up < 0 {
		up = mpi.ProcNull
	}
	if down == world.Size() {
		down = mpi.ProcNull
	}
	if _, err := mpi.Sendrecv(world, plate[1], up, 0, plate[n+1], down, 0); err != nil {
		return err
	}
	_, err := mpi.Sendrecv(world, plate[n], down, 0, plate[0], up, 0)
	return err
}

// newRows returns n rows of warm cells, with a cold halo around them.
func newRows(n int) [][]float64 {
	plate := make([][]float64, n+2)
	for i := range plate {
		plate[i] = make([]float64, cols+2)
		for j := 1; j <= cols && 1 <= i && i <= n; j++ {
			plate[i][j] = 1
		}
	}
	return plate
}
