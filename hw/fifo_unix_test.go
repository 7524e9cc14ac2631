//go:build unix

package hw_test

import (
	"syscall"
	"testing"
)

func fifo(_ *testing.T, name string) error { return syscall.Mkfifo(name, 0o666) }
