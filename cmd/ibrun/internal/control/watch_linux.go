package control

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged bounds how long what was sent may stay without an answer from the other machine.
func limitUnacknowledged(tcp *net.TCPConn) error {
	conn, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	errControl := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int((2 * silence).Milliseconds()))
	})
	return errors.Join(errControl, err)
}
