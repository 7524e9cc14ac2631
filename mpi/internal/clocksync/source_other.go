//go:build !linux

package clocksync

import (
	"fmt"
	"os"
)

// clockName returns a name for this process's clock. On these systems there is one process of the system, or all
// share everything.
func clockName() (string, error) {
	host, err := os.Hostname()
	return fmt.Sprintf("%s process %d", host, os.Getpid()), err
}
