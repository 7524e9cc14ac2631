package launch

import (
	"fmt"
	"net"
	"os/exec"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

// underDebugger puts a debugger before the ranks that --dlv and --gdb name, and returns a line for each that says how to
// connect. Every debugger waits on a port of the loopback interface.
func underDebugger(ranks []rankTask, o *cli.Options, getenv func(string) string) (hints []string, err error) {
	for _, list := range []cli.Ranges{o.Delve, o.GDB} {
		for _, r := range list {
			if r.High >= len(ranks) {
				return nil, fail(codeUsage, "there is no rank %d to debug; the last is %d", r.High, len(ranks)-1)
			}
		}
	}
	for i := range ranks {
		r := &ranks[i]
		var hint string
		switch {
		case o.Delve.Contains(r.Rank) && o.GDB.Contains(r.Rank):
			return nil, fail(codeUsage, "rank %d cannot run under dlv and gdb", r.Rank)
		case o.Delve.Contains(r.Rank):
			hint, err = r.underDelve()
		case o.GDB.Contains(r.Rank) && getenv("DISPLAY") != "":
			hint, err = r.underGDB()
		case o.GDB.Contains(r.Rank):
			hint, err = r.underGDBServer()
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		hints = append(hints, fmt.Sprintf("rank %d waits for its debugger: %s", r.Rank, hint))
	}
	return hints, nil
}

func (r *rankTask) underDelve() (hint string, err error) {
	host, port, err := freePort()
	if err != nil {
		return "", err
	}
	addr := net.JoinHostPort(host, port)
	return "dlv connect " + addr, r.behind("go install github.com/go-delve/delve/cmd/dlv@latest",
		"dlv", "exec", "--headless", "--accept-multiclient", "--api-version=2", "--listen="+addr, r.Path, "--")
}

func (r *rankTask) underGDBServer() (hint string, err error) {
	host, port, err := freePort()
	if err != nil {
		return "", err
	}
	addr := net.JoinHostPort(host, port)
	hint = fmt.Sprintf("gdb -ex 'target remote %s' %s", addr, r.Path)
	return hint, r.behind("apt-get install gdbserver, or have xterm, gdb and a DISPLAY", "gdbserver", "--once", addr, r.Path)
}

func (r *rankTask) underGDB() (hint string, err error) {
	if _, err := exec.LookPath("gdb"); err != nil {
		return "", fail(codeNotFound, "rank %d cannot run under gdb: %w (apt-get install gdb)", r.Rank, err)
	}
	title := fmt.Sprintf("rank %d", r.Rank)
	return "in the window " + title, r.behind("apt-get install xterm, or unset DISPLAY to use gdbserver",
		"xterm", "-T", title, "-e", "gdb", "--args", r.Path)
}

// behind puts a debugger's command before the arguments of the rank's program.
func (r *rankTask) behind(fix string, command ...string) error {
	tool, err := exec.LookPath(command[0])
	if err != nil {
		return fail(codeNotFound, "rank %d cannot run under %s: %w (%s)", r.Rank, command[0], err, fix)
	}
	r.Path, r.Args = tool, append(command, r.Args[1:]...)
	return nil
}

// freePort returns the loopback address and a port of it that nobody listens on.
func freePort() (host, port string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", fail(codeFailed, "find a free port: %w", err)
	}
	defer l.Close()
	return net.SplitHostPort(l.Addr().String())
}
