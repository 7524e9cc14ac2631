package mpi_test

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestRegisteredMemory sends from and receives into memory that was made known before, and in parts of it.
func TestRegisteredMemory(t *testing.T) {
	const n = 1 << 16
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		x, err := mpi.Alloc[int32](p, n)
		if err != nil {
			return err
		}
		y := make([]int32, n)
		for _, z := range [][]int32{y, y[:100], y, nil} {
			if err := mpi.Register(p, z); err != nil {
				return err
			}
		}
		w, me := p.World(), int32(p.World().Rank())
		for i := range x {
			x[i] = int32(i) ^ me
		}
		for _, part := range [][2]int{{0, n}, {n / 2, n}, {100, 90000 / 4}} {
			x, y := x[part[0]:part[1]], y[part[0]:part[1]]
			if _, err := mpi.Sendrecv(w, x, int(1-me), 1, y, int(1-me), 1); err != nil {
				return err
			}
			for i := range y {
				if y[i] != int32(i+part[0])^(1-me) {
					return errors.New("wrong data")
				}
			}
		}
		for _, z := range [][]int32{y[:100], y, y, nil} {
			if err := mpi.Unregister(p, z); err != nil {
				return err
			}
		}
		if err := mpi.Unregister(p, y); !errors.Is(err, mpi.ErrBuffer) {
			t.Errorf("Unregister of what is not registered: %v", err)
		}
		if _, err := mpi.Alloc[int32](p, -1); !errors.Is(err, mpi.ErrCount) {
			t.Errorf("Alloc of -1: %v", err)
		}
		return nil
	})
}
