package mpi_test

import (
	"fmt"
	"log"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

func ExampleDimsCreate() {
	fmt.Println(mpi.DimsCreate(12, 0, 0))
	fmt.Println(mpi.DimsCreate(12, 0, 2, 0)) // the second dimension is given
	// Output:
	// [4 3] <nil>
	// [3 2 2] <nil>
}

// Every rank has a row of cells with a ghost cell at each end, and exchanges the cells at its ends with the ranks beside it
// in a grid of 3 by 2. At the edge of the grid the ghost cells keep their values, because a message to or from ProcNull does
// nothing.
func ExampleComm_CartCreate() {
	err := mpitest.Ranks(6, func(p *mpi.Process) error {
		grid, err := p.World().CartCreate([]int{3, 2}, nil, mpi.Reorder)
		if err != nil {
			return err
		}
		left, right, err := grid.CartShift(1, 1)
		if err != nil {
			return err
		}
		me := float64(grid.Rank())
		row := []float64{-1, me, me, me, -1}
		if _, err := mpi.Sendrecv(grid, row[3:4], right, 0, row[:1], left, 0); err != nil {
			return err
		}
		if _, err := mpi.Sendrecv(grid, row[1:2], left, 0, row[4:], right, 0); err != nil {
			return err
		}
		coords, err := grid.CartCoords(grid.Rank())
		if coords[0] == 1 && coords[1] == 0 {
			fmt.Println(coords, row)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: [1 0] [-1 2 2 2 3]
}

// The rows of a grid are communicators of their own, and so are its columns.
func ExampleComm_CartSub() {
	err := mpitest.Ranks(6, func(p *mpi.Process) error {
		grid, err := p.World().CartCreate([]int{2, 3}, nil, mpi.KeepRanks)
		if err != nil {
			return err
		}
		row, err := grid.CartSub([]bool{false, true})
		if err != nil {
			return err
		}
		sum := []int{grid.Rank()}
		if err := mpi.Allreduce(row, sum, sum, mpi.Sum); err != nil {
			return err
		}
		if grid.Rank() == 4 {
			fmt.Println("row of rank 4:", row.Size(), "ranks with the sum", sum[0])
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: row of rank 4: 3 ranks with the sum 12
}

// A loop over the neighbors is the same for grids and graphs: here every rank adds what its neighbors in a ring have.
func ExampleComm_Neighbors() {
	err := mpitest.Ranks(5, func(p *mpi.Process) error {
		ring, err := p.World().CartCreate([]int{5}, []bool{true}, mpi.Reorder)
		if err != nil {
			return err
		}
		near, err := ring.Neighbors()
		if err != nil {
			return err
		}
		mine, got := []int{10 * ring.Rank()}, make([]int, len(near.Sources))
		var requests []mpi.Request
		for i, r := range near.Sources {
			q, err := mpi.Irecv(ring, got[i:i+1], r, 0)
			if err != nil {
				return err
			}
			requests = append(requests, q)
		}
		for _, r := range near.Destinations {
			if err := mpi.Send(ring, mine, r, 0); err != nil {
				return err
			}
		}
		err = mpi.Waitall(requests, nil)
		if ring.Rank() == 0 {
			fmt.Println("rank 0 has", got, "from", near.Sources)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 has [40 10] from [4 1]
}

// A halo exchange: each rank of a grid of 2 by 2 has 2 by 2 cells with the number of the rank, and around them room for the
// edges of its neighbors.
func ExampleComm_CartCreate_halo() {
	const ny, nx = 2, 2
	err := mpitest.Ranks(4, func(p *mpi.Process) error {
		grid, err := p.World().CartCreate([]int{2, 2}, nil, mpi.Reorder)
		if err != nil {
			return err
		}
		cells := make([]int, (ny+2)*(nx+2))
		for i := range cells {
			cells[i] = grid.Rank()
		}
		up, down, err := grid.CartShift(0, 1)
		if err != nil {
			return err
		}
		left, right, err := grid.CartShift(1, 1)
		if err != nil {
			return err
		}
		a := mpi.ArrayOf(cells, ny+2, nx+2)
		for _, x := range []struct {
			mine  mpi.View
			to    int
			ghost mpi.View
			from  int
		}{
			{a.Row(1), up, a.Row(ny + 1), down}, {a.Row(ny), down, a.Row(0), up},
			{a.Col(1), left, a.Col(nx + 1), right}, {a.Col(nx), right, a.Col(0), left},
		} {
			if _, err := grid.Sendrecv(x.mine, x.to, 0, x.ghost, x.from, 0); err != nil {
				return err
			}
		}
		if grid.Rank() == 0 {
			for y := range ny + 2 {
				fmt.Println(cells[y*(nx+2) : (y+1)*(nx+2)])
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// [0 0 0 1]
	// [0 0 0 1]
	// [0 0 0 1]
	// [2 2 2 3]
}
