package hw

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Affinity returns the PUs that the calling thread may run on, ascending: those of the process, as long as no
// thread was bound by itself.
func Affinity() ([]int, error) {
	set := unix.NewCPUSet(maxID)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return nil, fmt.Errorf("hw: read affinity: %w", err)
	}
	var pus []int
	for id := range maxID {
		if set.IsSet(id) {
			pus = append(pus, id)
		}
	}
	return pus, nil
}

// Bind restricts the calling thread, and the processes it starts from now on, to these PUs. The caller has locked
// the thread with runtime.LockOSThread.
func Bind(pus []int) error {
	set := unix.NewCPUSet(maxID)
	for _, id := range pus {
		set.Set(id)
	}
	if err := unix.SchedSetaffinityDynamic(0, set); err != nil {
		return fmt.Errorf("hw: bind to PUs %s: %w", FormatList(pus), err)
	}
	return nil
}
