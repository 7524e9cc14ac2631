package clocksync

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ibrun/ibrun/hw"
)

// clockName names this process's clock: kernel and time namespace. Where there is no /proc to tell, nobody knows whether it is
// that of another process, so it has a name of its own.
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
		space = "none" // a kernel before 5.6, or one that was built without
	} else if err != nil {
		return "", fmt.Errorf("find out the time namespace: %w", err)
	}
	return boot + " " + space, nil
}
