package core_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// checkSum checks that all ranks of a communicator can communicate.
func checkSum(c *mpi.Comm) error {
	sum := []int{1}
	err := mpi.Allreduce(c, sum, sum, mpi.Sum)
	if err == nil && sum[0] != c.Size() {
		err = fmt.Errorf("the sum of 1 at %d ranks is %d", c.Size(), sum[0])
	}
	return err
}

// TestContextGenerationWraps: ranks use common context ids again after one of them has used the ids so often with others
// that the generations have wrapped around.
func TestContextGenerationWraps(t *testing.T) {
	for _, often := range []uint32{1, 1 << 17, 1<<18 + 1, 1<<19 - 2, 1 << 19, 3<<19 + 1} {
		mpitest.Run(t, 3, func(p *mpi.Process) error {
			for round := range 4 {
				if round > 0 && p.World().Rank() == round%3 {
					(*core.Process)(p).Elsewhere(often)
				}
				c, err := p.World().Split(p.World().Rank()/2, 0) // the last rank goes its own way
				if err != nil {
					return err
				}
				d, err := p.World().Dup()
				if err != nil {
					return err
				}
				if err := errors.Join(checkSum(c), checkSum(d)); err != nil {
					return fmt.Errorf("%d times, round %d: %w", often, round, err)
				}
				if err := errors.Join(d.Free(), c.Free()); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
