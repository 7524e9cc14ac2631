package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock takes the lock of a directory; how is LOCK_EX, and LOCK_NB not to wait. It is released by Close, or when the
// process ends, however it ends.
func lock(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// newWork makes a directory for one run, and removes those of runs that were killed before they could.
func newWork(cache string) (dir string, remove func(), err error) {
	runs := filepath.Join(cache, "runs")
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return "", nil, err
	}
	all, err := lock(runs, unix.LOCK_EX)
	if err != nil {
		return "", nil, err
	}
	defer all.Close()
	old, err := filepath.Glob(filepath.Join(runs, "*"))
	if err != nil {
		return "", nil, err
	}
	for _, o := range old {
		if f, err := lock(o, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			os.RemoveAll(o) // what remains, the next run removes
			f.Close()
		}
	}
	if dir, err = os.MkdirTemp(runs, ""); err != nil {
		return "", nil, err
	}
	mine, err := lock(dir, unix.LOCK_EX)
	if err != nil {
		return "", nil, err
	}
	return dir, func() {
		os.RemoveAll(dir)
		mine.Close()
	}, nil
}
