//go:build unix

package pmi

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openFD opens a descriptor that was inherited from the launcher. If the number now belongs to something else than a stream
// socket, openFD does not change it.
func openFD(fd int) (conn, error) {
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return nil, errors.New("not an open stream socket")
	}
	unix.CloseOnExec(fd)
	// The runtime's poller only supports non-blocking descriptors. Without it deadlines do not work and Close does not end a read.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("a socket that cannot be made non-blocking: %w", err)
	}
	return os.NewFile(uintptr(fd), "PMI_FD"), nil
}
