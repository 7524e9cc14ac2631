package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// A debugger that waits for a connection listens on a Unix socket in a folder that only this user may enter. On a TCP port
// any user of the machine could connect and give commands as this user; gdbserver would even listen on all interfaces.

// debuggers starts ranks under a debugger.
type debuggers struct {
	dir     string // the folder of their sockets; empty: not needed
	display bool   // windows can be opened
}

// restoreScript is what gdbserver starts the program with. With its own standard streams gdbserver talks to gdb, so the program
// would lose them. ServeDebugger has kept them as descriptors 5 and 6.
const restoreScript = "#!/bin/sh\nexec \"$@\" <&5 >&6 5<&- 6>&-\n"

// checkDebuggers returns an error if --dlv and --gdb name a rank that the job does not have, or both the same one. size is the
// number of ranks of the job.
func checkDebuggers(size int, set *cli.Debug) error {
	for _, r := range append(slices.Clone(set.Delve), set.GDB...) {
		if r.High >= size {
			return exitcode.Errorf(exitcode.UsageError, "there is no rank %d to debug; the last is %d", r.High, size-1)
		}
	}
	for rank := range size {
		if set.Delve.Contains(rank) && set.GDB.Contains(rank) {
			return exitcode.Errorf(exitcode.UsageError, "rank %d cannot run under dlv and gdb", rank)
		}
	}
	return nil
}

// tryDebuggers returns an error if a debugger for these ranks is missing. It makes their commands as a job does, and drops them.
func tryDebuggers(ranks []int, set *cli.Debug, getenv func(string) string) error {
	tasks := make([]protocol.RankTask, len(ranks))
	for i, rank := range ranks {
		tasks[i] = protocol.RankTask{Rank: rank, Args: []string{""}} // the name of the program, which a debugger replaces
	}
	_, err := (&debuggers{display: getenv("DISPLAY") != ""}).add(tasks, set)
	return err
}

// newDebuggers returns what starts the ranks that --dlv and --gdb name. The caller must call close at the end of the job.
func newDebuggers(set *cli.Debug, getenv func(string) string) (*debuggers, error) {
	d := &debuggers{display: getenv("DISPLAY") != ""}
	if !set.Any() {
		return d, nil
	}
	parent := ""
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && unix.Access(dir, unix.W_OK|unix.X_OK) == nil {
		parent = dir
	}
	dir, err := os.MkdirTemp(parent, "ibrun-debug-") // its mode is 0700
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "restore"), []byte(restoreScript), 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder for the sockets of debuggers: %w", err)
	}
	d.dir = dir
	return d, nil
}

// close removes the sockets.
func (d *debuggers) close() error {
	if d.dir == "" {
		return nil
	}
	return os.RemoveAll(d.dir)
}

// add prepends a debugger to the commands of those ranks that --dlv and --gdb name. It returns a line for each such rank that
// describes how to reach the debugger.
func (d *debuggers) add(ranks []protocol.RankTask, set *cli.Debug) (hints []string, err error) {
	for i := range ranks {
		r := &ranks[i]
		var hint string
		switch {
		case set.Delve.Contains(r.Rank):
			hint, err = d.underDelve(r)
		case set.GDB.Contains(r.Rank):
			hint, err = d.underGDB(r)
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

// socket returns the path of a rank's socket.
func (d *debuggers) socket(r *protocol.RankTask) string {
	return filepath.Join(d.dir, strconv.Itoa(r.Rank))
}

func (d *debuggers) underDelve(r *protocol.RankTask) (hint string, err error) {
	addr := "unix:" + d.socket(r)
	return "waits for: dlv connect " + addr, prependCommand(r, "go install github.com/go-delve/delve/cmd/dlv@latest",
		"dlv", "exec", "--headless", "--api-version=2", "--listen="+addr, string(r.Path), "--")
}

// underGDB uses the best available interface: a window, a server to connect to, or else gdb in batch mode, which shows where
// the rank has crashed.
func (d *debuggers) underGDB(r *protocol.RankTask) (hint string, err error) {
	const fix = "apt-get install gdb gdbserver"
	switch {
	case d.display && installed("xterm") && installed("gdb"):
		title := fmt.Sprintf("rank %d", r.Rank)
		return "runs under gdb in a window", prependCommand(r, fix, "xterm", "-T", title, "-e", "gdb", "--args", string(r.Path))
	case installed("gdbserver"):
		hint = fmt.Sprintf("waits for: gdb -iex 'set sysroot /' -ex 'target remote %s' %s", d.socket(r), r.Path)
		err = prependCommand(r, fix, "gdbserver", "--once", "--wrapper", filepath.Join(d.dir, "restore"), "--", "-", string(r.Path))
		if err != nil {
			return "", err
		}
		self, err := os.Executable()
		r.Args = append([]string{"ibrun", "debugger", d.socket(r), string(r.Path)}, r.Args...)
		r.Path = protocol.Text(self)
		return hint, err
	}
	return "runs under gdb, which shows the stack if it crashes; to connect to it instead: apt-get install gdbserver",
		prependCommand(r, fix, "gdb", "-q", "-batch", "-return-child-result",
			"-ex", "run", "-ex", "thread apply all -s backtrace", "--args", string(r.Path))
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
	r.Path, r.Args = protocol.Text(tool), append(command, r.Args[1:]...)
	return nil
}
