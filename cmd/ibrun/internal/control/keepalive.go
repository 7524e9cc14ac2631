package control

import (
	"fmt"
	"net"
)

// enableKeepAlive makes the kernel detect that the other machine has failed, also while no heartbeats are sent.
func enableKeepAlive(raw net.Conn) error {
	tcp, ok := raw.(*net.TCPConn)
	if !ok {
		return nil // a pipe of a test; closing its other end is an error for reads and writes
	}
	const interval = 2 * heartbeatInterval
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: interval, Interval: interval, Count: maxMissedHeartbeats})
	if err == nil {
		err = setUserTimeout(tcp)
	}
	if err != nil {
		return fmt.Errorf("enable TCP keepalive: %w", err)
	}
	return nil
}
