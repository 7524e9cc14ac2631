//go:build !linux

package control

import (
	"net"
	"time"
)

// setUserTimeout does nothing: the system has its own limit for unacknowledged data.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
