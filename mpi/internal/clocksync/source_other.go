//go:build !linux

package clocksync

import (
	"fmt"
	"os"
)

// clockName names this process's clock. Processes here are alone, or share everything.
func clockName() (string, error) {
	host, err := os.Hostname()
	return fmt.Sprintf("%s process %d", host, os.Getpid()), err
}
