package hw

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// PreferMemory makes the calling thread, and the processes it starts from now on, allocate memory of these NUMA nodes
// first, and of other nodes when these have none free. If nodes is empty, or none of the nodes has memory, the kernel's
// default applies: memory of the node on which a thread runs when it first touches a page, or of the node nearest to it.
// The caller must have locked the thread with runtime.LockOSThread.
//
// If the kernel has no NUMA support, the error wraps errors.ErrUnsupported. If the filter of a container forbids the
// call, it wraps fs.ErrPermission. After an error the thread keeps its policy. Before Linux 5.15 the kernel can prefer
// one node but not several. PreferMemory then sets the default for several nodes, which uses memory near the PUs that
// the thread is bound to.
func PreferMemory(nodes []int) error {
	if len(nodes) == 0 {
		return memoryError(nodes, unix.SetMemPolicyDynamic(unix.MPOL_DEFAULT, nil))
	}
	set := unix.NewCPUSet(maxID) // a node mask has the format of a CPU set
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

// allWithoutMemory reports whether all these nodes exist and none has memory, as with a socket whose memory slots are
// empty.
func allWithoutMemory(fsys fs.FS, nodes []int) bool {
	r := reader{fsys: fsys}
	online, ok := r.readList(dirNode + "online")
	withMemory, okMemory := r.readList(dirNode + "has_memory")
	return ok && okMemory && !slices.ContainsFunc(nodes, func(id int) bool {
		return !slices.Contains(online, id) || slices.Contains(withMemory, id)
	})
}

// supportsPreferredMany reports whether the kernel accepts a policy with several preferred nodes. It tries node 0, which
// every machine has.
func supportsPreferredMany() bool {
	set := unix.NewCPUSet(maxID)
	set.Set(0)
	return unix.SetMemPolicyDynamic(unix.MPOL_PREFERRED_MANY, set) == nil
}

// memoryError adds the nodes to an error of PreferMemory.
func memoryError(nodes []int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("hw: prefer memory of NUMA nodes %s: %w", FormatList(nodes), err)
}
