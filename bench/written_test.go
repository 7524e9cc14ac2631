package bench

import (
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestWritten: latency and bw can be measured with messages that are written before they are sent. Other operations cannot, there
// are no percentiles, and what arrives is not checked.
func TestWritten(t *testing.T) {
	mpitest.RunWith(t, 2, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
		for _, op := range Ops() {
			cfg := Config{Sizes: []int{4096}, Iterations: 10, Window: 4, Written: true}
			possible := op.Name == "latency" || op.Name == "bw"
			if err := cfg.Check(op, 2); (err == nil) != possible {
				return fmt.Errorf("%s: %v", op.Name, err)
			}
			if !possible {
				continue
			}
			err := Run(p.World(), op, cfg, func(r Result) error {
				if r.Value <= 0 || r.Iterations != 10 || r.Size != 4096 || !r.Written {
					return fmt.Errorf("%s: %+v", op.Name, r)
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, change := range []func(c *Config){
				func(c *Config) { c.Validate = true }, func(c *Config) { c.Percentiles = true },
			} {
				bad := cfg
				if change(&bad); bad.Check(op, 2) == nil {
					return fmt.Errorf("%s was not refused with %+v", op.Name, bad)
				}
			}
		}
		return nil
	})
}
