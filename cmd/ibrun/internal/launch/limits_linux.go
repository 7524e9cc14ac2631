package launch

import (
	"errors"
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
