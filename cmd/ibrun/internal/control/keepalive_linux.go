package control

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds how long sent data may stay unacknowledged by the other machine.
func setUserTimeout(tcp *net.TCPConn, timeout time.Duration) error {
	conn, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	errControl := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
	})
	return errors.Join(errControl, err)
}
