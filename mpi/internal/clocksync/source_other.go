//go:build !linux

package clocksync

import (
	"fmt"
	"os"
)

// machine names this process's clock. Processes here are alone, or share everything.
func machine() (string, error) {
	host, err := os.Hostname()
	return fmt.Sprintf("%s process %d", host, os.Getpid()), err
}
