package proctree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroup is a control group that holds a job, so that the kernel can kill all of it in one step. A nil cgroup is
// none: not every user may make one, and the tree of processes is searched in any case.
type Cgroup struct {
	Dir string
	FD  int
}

// groupPrefix begins the names of all groups of jobs.
const groupPrefix = "ibrun-"

// NewCgroup makes a group for a job below the one this process is in, or returns nil where that is not allowed.
func NewCgroup(name string) *Cgroup {
	mounts, errMounts := os.ReadFile("/proc/self/mountinfo")
	own, errOwn := os.ReadFile("/proc/self/cgroup")
	if errMounts != nil || errOwn != nil {
		return nil
	}
	parent, ok := cgroupDir(string(mounts), string(own))
	if !ok {
		return nil
	}
	removeStale(parent)
	dir := filepath.Join(parent, groupPrefix+name)
	if os.Mkdir(dir, 0o755) != nil {
		return nil
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		os.Remove(dir)
		return nil
	}
	return &Cgroup{dir, fd}
}

// removeStale removes the groups of jobs whose ibrun and agent were both killed. A group that holds a process cannot be
// removed, and one that is about to hold its first is not that old.
func removeStale(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, groupPrefix+"*"))
	if err != nil {
		return // parent is no plain name, so nothing of ours is there
	}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(dir) // it may be in use
		}
	}
}

// cgroupDir finds the directory of this process's group in the unified hierarchy, from /proc/self/mountinfo and cgroup.
func cgroupDir(mounts, own string) (string, bool) {
	path, found := "", false
	for line := range strings.Lines(own) {
		if path, found = strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); found {
			break
		}
	}
	for line := range strings.Lines(mounts) {
		// ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS... - TYPE SOURCE OPTIONS
		where, what, ok := strings.Cut(line, " - ")
		fields := strings.Fields(where)
		if !found || !ok || len(fields) < 5 || !strings.HasPrefix(what, "cgroup2 ") {
			continue
		}
		if below, err := filepath.Rel(fields[3], path); err == nil && filepath.IsLocal(below) {
			return filepath.Join(fields[4], below), true
		}
	}
	return "", false
}

// Kill kills all that is in the group, as far as the kernel can (from Linux 5.14).
func (g *Cgroup) Kill() {
	if g != nil {
		_ = os.WriteFile(filepath.Join(g.Dir, "cgroup.kill"), []byte("1"), 0) // the search through the tree follows anyway
	}
}

// Remove removes the group, and groups that were made inside it, once all that was in them has been reaped.
func (g *Cgroup) Remove() error {
	if g == nil {
		return nil
	}
	var dirs []string
	err := filepath.WalkDir(g.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, os.Remove(dir))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove control group: %w", err)
	}
	return nil
}
