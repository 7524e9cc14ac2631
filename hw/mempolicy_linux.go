package hw

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// PreferMemory has the calling thread, and the processes it starts from now on, take memory of these NUMA nodes first, and
// of others when these have none left. No nodes, or only such as have no memory: what the kernel does by itself, which is
// memory of the node that a thread runs on when it first touches a page, or of the one nearest to it. The caller has locked
// the thread with runtime.LockOSThread.
//
// Where the kernel has no NUMA support or a container's filter forbids it, the error wraps errors.ErrUnsupported or
// fs.ErrPermission. After an error the thread's policy is what it was. Before Linux 5.15 one node can be preferred but not
// several; these are then left to the kernel, which takes what is near the PUs that the thread is bound to.
func PreferMemory(nodes []int) error {
	if len(nodes) == 0 {
		return memoryError(nodes, unix.SetMemPolicyDynamic(unix.MPOL_DEFAULT, nil))
	}
	set := unix.NewCPUSet(maxID) // bits are bits
	for _, id := range nodes {
		set.Set(id)
	}
	err := unix.SetMemPolicyDynamic(unix.MPOL_PREFERRED_MANY, set)
	if errors.Is(err, unix.EINVAL) && len(nodes) == 1 {
		err = unix.SetMemPolicyDynamic(unix.MPOL_PREFERRED, set)
	} else if errors.Is(err, unix.EINVAL) && !supportsPreferredMany() {
		err = unix.SetMemPolicyDynamic(unix.MPOL_DEFAULT, nil)
	}
	if errors.Is(err, unix.EINVAL) && allWithoutMemory(os.DirFS("/"), nodes) {
		err = unix.SetMemPolicyDynamic(unix.MPOL_DEFAULT, nil)
	}
	return memoryError(nodes, err)
}

// allWithoutMemory tells whether all these nodes are there, and none has memory: a socket whose slots are empty.
func allWithoutMemory(fsys fs.FS, nodes []int) bool {
	r := reader{fsys: fsys}
	online, told := r.readList(dirNode + "online")
	filled, tells := r.readList(dirNode + "has_memory")
	return told && tells && !slices.ContainsFunc(nodes, func(id int) bool {
		return !slices.Contains(online, id) || slices.Contains(filled, id)
	})
}

// supportsPreferredMany tells whether the kernel lets several nodes be preferred: node 0 is there on every machine.
func supportsPreferredMany() bool {
	set := unix.NewCPUSet(maxID)
	set.Set(0)
	return unix.SetMemPolicyDynamic(unix.MPOL_PREFERRED_MANY, set) == nil
}

func memoryError(nodes []int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("hw: prefer memory of NUMA nodes %s: %w", FormatList(nodes), err)
}
