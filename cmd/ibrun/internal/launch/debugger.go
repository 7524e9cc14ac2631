package launch

import (
	"fmt"
	"os/exec"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// addDebuggers prepends a debugger to the commands of those ranks that --dlv and --gdb name. size is the number of ranks of the
// job. It returns a line for each such rank that says how to reach the debugger. A debugger that waits for a connection listens
// on a port of the loopback interface.
func addDebuggers(ranks []protocol.RankTask, size int, o *cli.Options, getenv func(string) string) (hints []string, err error) {
	for _, list := range []cli.Ranges{o.Delve, o.GDB} {
		for _, r := range list {
			if r.High >= size {
				return nil, exitcode.Errorf(exitcode.UsageError, "there is no rank %d to debug; the last is %d", r.High, size-1)
			}
		}
	}
	for i := range ranks {
		r := &ranks[i]
		var hint string
		switch {
		case o.Delve.Contains(r.Rank) && o.GDB.Contains(r.Rank):
			return nil, exitcode.Errorf(exitcode.UsageError, "rank %d cannot run under dlv and gdb", r.Rank)
		case o.Delve.Contains(r.Rank):
			hint, err = underDelve(r)
		case o.GDB.Contains(r.Rank):
			hint, err = underGDB(r, getenv("DISPLAY") != "")
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		hints = append(hints, fmt.Sprintf("rank %d %s", r.Rank, hint))
	}
	return hints, nil
}

func underDelve(r *protocol.RankTask) (hint string, err error) {
	free, err := coordinator.FreeAddr("127.0.0.1")
	if err != nil {
		return "", err
	}
	addr := free.String()
	return "waits for: dlv connect " + addr, prependCommand(r, "go install github.com/go-delve/delve/cmd/dlv@latest",
		"dlv", "exec", "--headless", "--api-version=2", "--listen="+addr, r.Path, "--")
}

// underGDB uses the best available interface: a window, a server to connect to, or else gdb in batch mode, which shows where
// the rank has crashed.
func underGDB(r *protocol.RankTask, display bool) (hint string, err error) {
	const fix = "apt-get install gdb gdbserver"
	switch {
	case display && installed("xterm") && installed("gdb"):
		title := fmt.Sprintf("rank %d", r.Rank)
		return "runs under gdb in a window", prependCommand(r, fix, "xterm", "-T", title, "-e", "gdb", "--args", r.Path)
	case installed("gdbserver"):
		free, err := coordinator.FreeAddr("127.0.0.1")
		if err != nil {
			return "", err
		}
		addr := free.String()
		hint = fmt.Sprintf("waits for: gdb -ex 'target remote %s' %s", addr, r.Path)
		return hint, prependCommand(r, fix, "gdbserver", "--once", addr, r.Path)
	}
	return "runs under gdb, which shows the stack if it crashes; to connect to it instead: apt-get install gdbserver",
		prependCommand(r, fix, "gdb", "-q", "-batch", "-return-child-result",
			"-ex", "run", "-ex", "thread apply all -s backtrace", "--args", r.Path)
}

func installed(tool string) bool {
	_, err := exec.LookPath(tool)
	return err == nil
}

// prependCommand puts a debugger's command before the arguments of the rank's program.
func prependCommand(r *protocol.RankTask, fix string, command ...string) error {
	tool, err := exec.LookPath(command[0])
	if err != nil {
		return exitcode.Errorf(exitcode.NotFound, "rank %d cannot run under %s: %w (%s)", r.Rank, command[0], err, fix)
	}
	r.Path, r.Args = tool, append(command, r.Args[1:]...)
	return nil
}
