//go:build !linux

package control

import "net"

// setUserTimeout does nothing: the system has its own limit for unacknowledged data.
func setUserTimeout(*net.TCPConn) error { return nil }
