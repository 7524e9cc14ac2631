package mpi_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
)

// joined are programs of ranks that are processes of their own and begin with Join.
var joined = map[string]func(p *mpi.Process) error{
	"leave early":          leaveEarly,
	"leave early, unheard": leaveEarly,
}

// unheard are the programs whose launcher says nothing about ranks that have left.
var unheard = map[string]bool{"leave early, unheard": true, "exit early": true, "killed early": true,
	"killed copying": true, "killed copying at once": true, "killed while others wait": true}

func joinMain(program func(p *mpi.Process) error) error {
	p, err := mpi.Join(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := program(p); err != nil {
		return fmt.Errorf("rank %s: %w", os.Getenv("PMI_RANK"), err)
	}
	return nil
}

// overTransports runs a program as processes, over each transport between processes of this machine and over their combination.
// All ranks must exit with 0.
func overTransports(t *testing.T, program string, sizes ...int) {
	t.Helper()
	transports := []string{"shm", "tcp"}
	if unheard[program] {
		transports = transports[:1] // over TCP a process that refuses is only lost after some seconds
	}
	if soaktest.On() {
		transports, sizes = []string{"shm", "tcp", "shm,tcp"}, []int{2, 3, 4, 8}
	}
	for _, transport := range transports {
		for _, n := range sizes {
			t.Run(fmt.Sprintf("%s over %s with %d", program, transport, n), func(t *testing.T) {
				nodes := 1
				if transport == "shm,tcp" && n%2 == 0 {
					nodes = 2
				}
				dress := func(_ int, c *exec.Cmd) {
					c.Env = append(c.Env, "IBRUN_TRANSPORT="+transport, "IBRUN_TCP_INTERFACES=lo")
				}
				_, exits, output := launchJob(t, pmi.Job{Size: n}, nodes, program, dress)
				for rank, code := range exits {
					if code != 0 && !(strings.HasPrefix(program, "killed") && rank == n-1) {
						t.Errorf("rank %d ended with %d", rank, code)
					}
				}
				if t.Failed() {
					t.Log(output)
				}
			})
		}
	}
}

// TestLeftProcesses does between processes, over each transport, what TestFinalizeEarly and TestLeaveBefore do in memory. With
// IBRUN_SOAK=1 it runs each program with 2 to 8 of them.
func TestLeftProcesses(t *testing.T) {
	overTransports(t, "finalize early", 4)
	overTransports(t, "leave early", 4)
	overTransports(t, "leave early, unheard", 4)
	overTransports(t, "exit early", 8)
	overTransports(t, "killed early", 8)
	overTransports(t, "killed copying", 4)
	overTransports(t, "killed copying at once", 2, 4)
	overTransports(t, "killed while others wait", 4)
}
