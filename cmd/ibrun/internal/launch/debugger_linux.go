package launch

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

// The descriptors in restoreScript.
const (
	keptStdin  = 5
	keptStdout = 6
)

// ServeDebugger is "ibrun debugger SOCKET PROGRAM ARGUMENTS...", as which a rank starts. It waits for a client at the socket,
// removes the socket, and becomes the program, a debugger with the client as its standard input and output. It returns the exit
// code if that fails.
func ServeDebugger(args []string, errs io.Writer) int {
	if len(args) < 3 {
		fmt.Fprintln(errs,
			"ibrun: the command debugger is only for ibrun itself; to run a program of that name: ibrun -- debugger")
		return exitcode.UsageError
	}
	err := serveDebugger(args[0])
	if err == nil {
		err = unix.Exec(args[1], args[2:], os.Environ())
	}
	fmt.Fprintf(errs, "ibrun: wait for a debugger at %s: %v\n", args[0], err)
	return exitcode.Failed
}

func serveDebugger(path string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	c, err := l.AcceptUnix()
	if err = errors.Join(err, l.Close()); err != nil { // this removes the socket: there is one client only
		return err
	}
	f, err := c.File() // in blocking mode, as gdbserver expects it
	if err != nil {
		return err
	}
	client, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, keptStdout+1) // f may have a number that is needed
	if err != nil {
		return err
	}
	for _, d := range [][2]int{{0, keptStdin}, {1, keptStdout}, {client, 0}, {client, 1}} {
		if err := unix.Dup3(d[0], d[1], 0); err != nil {
			return err
		}
	}
	return nil
}
