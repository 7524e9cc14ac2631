//go:build !linux

package hw

import (
	"errors"
	"fmt"
)

// BootID names the kernel that runs, which needs Linux: the error wraps [errors.ErrUnsupported].
func BootID() (string, error) {
	return "", fmt.Errorf("hw: find out which kernel this is: %w: it needs Linux", errors.ErrUnsupported)
}
