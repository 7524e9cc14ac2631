package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

const (
	// rankFiles is the number of descriptors that an agent holds for a rank: two pipes, PMI twice, IBRUN_FD, the pidfd, a pair of
	// sockets by which other ranks wake it, and a file for its output.
	rankFiles = 9
	// agentFiles is the number of descriptors that the agent needs in addition.
	agentFiles = 48
)

// addressSpaceNote returns what the user should know if processes of Go have hardly enough address space, or an empty string.
func addressSpaceNote() string {
	var space unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &space) != nil {
		return ""
	}
	return noteAddressSpace(space.Cur)
}

// noteAddressSpace is addressSpaceNote for a limit in bytes. Processes of Go reserve a large part of their address space when
// they start, and end with a dump of Go's runtime if they get no more.
func noteAddressSpace(limit uint64) string {
	const enough = 1 << 30
	if limit >= enough {
		return ""
	}
	return fmt.Sprintf("the address space of a process is limited to %d MiB (ulimit -v): ibrun and programs of Go need %d MiB "+
		"each, and may crash", limit>>20, enough>>20)
}

// checkLimits returns an error if this machine cannot run that many ranks.
func checkLimits(ranks int) error {
	var files, processes unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return exitcode.Errorf(exitcode.Failed, "read limit of open files: %w", err)
	}
	if need := uint64(ranks)*rankFiles + agentFiles; need > files.Max {
		return exitcode.Errorf(exitcode.UsageError,
			"%d ranks on one machine need %d open files, but the limit is %d (ulimit -Hn)", ranks, need, files.Max)
	}
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &processes); err != nil {
		return exitcode.Errorf(exitcode.Failed, "read limit of processes: %w", err)
	}
	if uint64(ranks) > processes.Cur && os.Geteuid() != 0 {
		return exitcode.Errorf(exitcode.UsageError, "%d ranks are more processes than the limit of %d (ulimit -u)", ranks,
			processes.Cur)
	}
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if errors.Is(err, fs.ErrNotExist) { // as with procfs' option subset=pid: the start of the ranks finds it out
		return nil
	}
	if err != nil {
		return exitcode.Errorf(exitcode.Failed, "read limit of processes: %w", err)
	}
	if top, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && ranks > top {
		return exitcode.Errorf(exitcode.UsageError,
			"%d ranks are more processes than this machine can number (kernel.pid_max = %d)", ranks, top)
	}
	return nil
}
