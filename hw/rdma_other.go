//go:build !linux

package hw

import (
	"errors"
	"fmt"
)

// Local returns errors.ErrUnsupported: only Linux is supported.
func Local() (*Topology, error) {
	return nil, fmt.Errorf("hw: read this machine: needs Linux: %w", errors.ErrUnsupported)
}

// LocalRDMA returns errors.ErrUnsupported: this system has no RDMA devices that programs can reach.
func LocalRDMA() ([]RDMADevice, error) {
	return nil, fmt.Errorf("hw: list RDMA devices: needs Linux: %w", errors.ErrUnsupported)
}

// CanOpen returns an [*AccessError] that wraps errors.ErrUnsupported.
func (d *RDMADevice) CanOpen() error {
	return &AccessError{Device: d.Name, Reason: "needs Linux", Err: errors.ErrUnsupported}
}

// RDMAOf returns errors.ErrUnsupported.
func RDMAOf(netdev string) (string, error) {
	return "", fmt.Errorf("hw: find the RDMA device of %s: needs Linux: %w", netdev, errors.ErrUnsupported)
}
