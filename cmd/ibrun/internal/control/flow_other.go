//go:build !linux

package control

import (
	"net"
	"time"
)

// flow knows nothing about links: the system does not tell what arrives.
type flow struct{}

func (*flow) begin(net.Conn, time.Time)                                {}
func (*flow) stalled(net.Conn, time.Time, time.Duration) time.Duration { return 0 }
func (*flow) again() bool                                              { return false }
func (*flow) skip(time.Duration, time.Time)                            {}
func (*flow) pause(time.Time)                                          {}
func (*flow) cause() error                                             { return nil }

func explainStall(_ net.Conn, _ time.Time, err error) error { return err }
