//go:build unix

package pmi

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openFD takes over a descriptor inherited from the launcher. Whatever else may have the number now is left alone.
func openFD(fd int) (conn, error) {
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return nil, errors.New("no open stream socket")
	}
	unix.CloseOnExec(fd)
	// Only a non-blocking descriptor is served by the runtime's poller, and only there do deadlines work and Close
	// end a read.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("a socket that cannot be made non-blocking: %w", err)
	}
	return os.NewFile(uintptr(fd), "PMI_FD"), nil
}
