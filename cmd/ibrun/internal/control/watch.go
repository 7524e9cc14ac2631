package control

import (
	"fmt"
	"net"
)

// watchPeer has the kernel tell when the other machine is gone, also while this connection stands still.
func watchPeer(raw net.Conn) error {
	tcp, ok := raw.(*net.TCPConn)
	if !ok {
		return nil // a pipe, whose end is noticed
	}
	probe := net.KeepAliveConfig{Enable: true, Idle: 2 * beatEvery, Interval: 2 * beatEvery, Count: beatsMissed}
	err := tcp.SetKeepAliveConfig(probe)
	if err == nil {
		err = limitUnacknowledged(tcp)
	}
	if err != nil {
		return fmt.Errorf("watch the other side: %w", err)
	}
	return nil
}
