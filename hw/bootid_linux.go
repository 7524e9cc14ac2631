package hw

import (
	"fmt"
	"os"
	"strings"
)

// BootID names the kernel that runs, from its start to its end: 36 characters, different on every machine and after every
// restart, and the same in all containers. Virtual machines that were resumed from one image share it.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("hw: find out which kernel this is: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
