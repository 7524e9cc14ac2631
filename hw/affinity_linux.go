package hw

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Affinity returns the PUs that the calling thread may run on, ascending. As long as no thread was bound separately,
// these are the PUs of the process.
func Affinity() ([]int, error) {
	set := unix.NewCPUSet(maxID)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return nil, fmt.Errorf("hw: read affinity: %w", err)
	}
	return setIDs(set), nil
}

// ProcessAffinity returns the PUs that any thread of this process may run on now, ascending. Use it to find where
// goroutines may run: a goroutine that is not locked to a thread moves between threads.
func ProcessAffinity() ([]int, error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, fmt.Errorf("hw: list the threads of the process: %w", err)
	}
	set := unix.NewCPUSet(maxID)
	var all []int
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return nil, fmt.Errorf("hw: list the threads of the process: %w", err)
		}
		clear(set)
		switch err := unix.SchedGetaffinityDynamic(id, set); {
		case errors.Is(err, unix.ESRCH): // it has ended since
		case err != nil:
			return nil, fmt.Errorf("hw: read affinity of thread %d: %w", id, err)
		default:
			all = append(all, setIDs(set)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// setIDs returns the members of a CPU set, ascending.
func setIDs(set unix.CPUSetDynamic) []int {
	var pus []int
	for id := range maxID {
		if set.IsSet(id) {
			pus = append(pus, id)
		}
	}
	return pus
}

// Bind restricts the calling thread, and the processes it starts from now on, to these PUs. The caller must have locked
// the thread with runtime.LockOSThread. The kernel silently ignores PUs that are offline or not in the cpuset of the
// cgroup. Bind returns an error in that case, with the thread bound to the other PUs.
func Bind(pus []int) error {
	set := unix.NewCPUSet(maxID)
	for _, id := range pus {
		set.Set(id)
	}
	if err := unix.SchedSetaffinityDynamic(0, set); err != nil {
		return fmt.Errorf("hw: bind to PUs %s: %w", FormatList(pus), err)
	}
	bound, err := Affinity()
	if err != nil {
		return err
	}
	if got, want := FormatList(bound), FormatList(pus); got != want {
		return fmt.Errorf("%w: of PUs %s only %s are switched on and in the cgroup's set", ErrBind, want, got)
	}
	return nil
}
