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
		// Where packets are lost, the kernel doubles the time between retransmissions until the connection is silent for longer
		// than the timeout. These limits are optional: the first needs Linux 6.15.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, 1000)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS, 1)
	})
	return errors.Join(errControl, err)
}
