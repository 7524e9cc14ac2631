//go:build !linux

package hw

import (
	"errors"
	"fmt"
)

// Affinity returns errors.ErrUnsupported: this system does not provide it.
func Affinity() ([]int, error) {
	return nil, fmt.Errorf("hw: read affinity: needs Linux: %w", errors.ErrUnsupported)
}

// ProcessAffinity returns errors.ErrUnsupported: this system does not provide it.
func ProcessAffinity() ([]int, error) { return Affinity() }

// Bind returns errors.ErrUnsupported: this system does not bind threads.
func Bind([]int) error {
	return fmt.Errorf("hw: bind: needs Linux: %w", errors.ErrUnsupported)
}

// PreferMemory returns errors.ErrUnsupported: this system has no memory policies.
func PreferMemory([]int) error {
	return fmt.Errorf("hw: prefer memory: needs Linux: %w", errors.ErrUnsupported)
}

// HasMemoryPolicy returns errors.ErrUnsupported.
func HasMemoryPolicy() (bool, error) {
	return false, fmt.Errorf("hw: read memory policy: needs Linux: %w", errors.ErrUnsupported)
}
