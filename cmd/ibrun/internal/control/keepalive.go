package control

import (
	"fmt"
	"net"
	"time"
)

// keepAliveProbes is how many probes of the kernel may stay without an answer.
const keepAliveProbes = 5

// enableKeepAlive makes the kernel detect after about that time that the other machine has failed, also while no heartbeats are
// sent.
func enableKeepAlive(raw net.Conn, timeout time.Duration) error {
	tcp, ok := innermost(raw).(*net.TCPConn)
	if !ok {
		return nil // a pipe of a test; closing its other end is an error for reads and writes
	}
	interval := max(time.Second, timeout/(keepAliveProbes+1)) // the kernel counts in seconds
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: interval, Interval: interval, Count: keepAliveProbes})
	if err == nil {
		err = setUserTimeout(tcp, timeout)
	}
	if err != nil {
		return fmt.Errorf("enable TCP keepalive: %w", err)
	}
	return nil
}
