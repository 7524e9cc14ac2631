package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock locks a directory with flock. how is LOCK_EX, or LOCK_EX|LOCK_NB to fail instead of waiting. Close releases the lock, and
// so does the end of the process.
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

// newWorkDir makes a directory for one run. It removes the directories of runs that were killed.
func newWorkDir(cache string) (dir string, remove func(), err error) {
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
			os.RemoveAll(o) // the next run removes the rest
			f.Close()
		}
	}
	if dir, err = os.MkdirTemp(runs, ""); err != nil {
		return "", nil, err
	}
	locked, err := lock(dir, unix.LOCK_EX)
	if err != nil {
		return "", nil, err
	}
	return dir, func() {
		os.RemoveAll(dir)
		locked.Close()
	}, nil
}
