package mpi_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/mpi"
)

// bindProcess binds all threads of this process, as taskset -a -p does from outside.
func bindProcess(pus []int) error {
	var set unix.CPUSet
	for _, pu := range pus {
		set.Set(pu)
	}
	for range 100 { // threads that were not bound yet may have started others
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if now, err := hw.ProcessAffinity(); err != nil || slices.Equal(now, pus) {
			return err
		}
	}
	return errors.New("some thread escapes")
}

// bindings has the kernel bind each rank to one PU, then to all, then to another one, and asks and splits each time.
func bindings(p *mpi.Process) error {
	w := p.World()
	top, err := hw.Local()
	all, err2 := hw.ProcessAffinity()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	onePackage := len(top.Packages) == 1 && len(all) == len(top.PUs)
	for step, mine := range [][]int{
		{all[w.Rank()%len(all)]}, all, {all[(w.Rank()+1)%len(all)]},
	} {
		if err := bindProcess(mine); err != nil {
			return err
		}
		want := map[string]string{"hwloc://PU": fmt.Sprint(len(mine) == 1), "hwloc://Machine": "true"}
		if len(mine) == 1 {
			want["hwloc://Core"], want["ibrun://here/pu/"+strconv.Itoa(mine[0])] = "true", "true"
		} else {
			want["hwloc://Core"] = fmt.Sprint(len(top.CoresOf(mine)) == 1)
		}
		if onePackage {
			want["hwloc://Package"] = "true"
		}
		together := 0 // ranks on this PU
		for r := range w.Size() {
			if len(mine) == 1 && r%len(all) == w.Rank()%len(all) {
				together++
			}
		}
		c, err := w.SplitType(mpi.TypeHWGuided, 0, resource("hwloc://PU"))
		size := 0
		if c != nil {
			size = c.Size()
		}
		if err := errors.Join(err, checkHardware(p, want),
			check(size == together, "%d came together, want %d", size, together)); err != nil {
			return fmt.Errorf("step %d, bound to %v: %w", step, mine, err)
		}
	}
	return nil
}

// TestHWResourceKernel binds processes for real.
func TestHWResourceKernel(t *testing.T) {
	t.Attr("changes", "bindings")
	for _, id := range []string{"S0-55", "S0-68"} {
		t.Run(id, func(t *testing.T) {
			for _, n := range []int{1, 3} {
				if end, exits, output := launch(t, n, "bindings", nil); end != "" || slices.Max(exits) != 0 {
					t.Errorf("%d ranks: ended with %q, codes %v\n%s", n, end, exits, output)
				}
			}
		})
	}
}
