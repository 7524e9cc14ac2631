//go:build unix

package exporter

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// privateUnix makes Unix sockets of mode 0600. Linux gives the file the mode that the socket has when it is bound, so there is no
// moment at which others may connect.
var privateUnix = net.ListenConfig{Control: func(_, path string, c syscall.RawConn) (err error) {
	errControl := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
	if err = errors.Join(errControl, err); err != nil {
		return fmt.Errorf("set the mode of %s: %w", path, err)
	}
	return nil
}}
