package clocksync

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ibrun/ibrun/hw"
)

// clockName returns a name for this process's clock, made of the kernel and the time namespace. Without /proc these
// are unknown, so the clock gets a unique name.
func clockName() (string, error) {
	boot, err := hw.BootID()
	if errors.Is(err, fs.ErrNotExist) {
		return rand.Text(), nil
	}
	if err != nil {
		return "", err
	}
	space, err := os.Readlink("/proc/self/ns/time")
	if errors.Is(err, fs.ErrNotExist) {
		space = "none" // the kernel is older than 5.6, or was built without time namespaces
	} else if err != nil {
		return "", fmt.Errorf("find out the time namespace: %w", err)
	}
	return boot + " " + space, nil
}
