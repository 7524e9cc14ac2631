package hw

import (
	"fmt"
	"os"
	"strings"
)

// BootID returns the identifier of the running kernel: 36 characters, different on every machine and after every
// restart, and equal in all containers of a machine. Virtual machines that were resumed from one image share it.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("hw: find out which kernel this is: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
