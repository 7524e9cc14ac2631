package proctree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/cgroup"
)

// Cgroup is a control group that contains a job, so that the kernel can kill all of its processes in one step. All methods
// accept a nil Cgroup and do nothing: not every user may create control groups, and [KillDescendants] searches the process tree
// in any case.
type Cgroup struct {
	Dir string
	FD  int
}

// groupPrefix is the prefix of the names of all control groups of jobs.
const groupPrefix = "ibrun-"

// NewCgroup creates a group for a job, below the group of this process. It returns nil where that is not allowed.
func NewCgroup(name string) *Cgroup {
	parent, ok := cgroup.Self().Unified()
	if !ok {
		return nil
	}
	removeStale(parent.Path)
	dir := filepath.Join(parent.Path, groupPrefix+name)
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

// InheritCgroup returns the group whose directory this process has inherited as a descriptor, or nil if the descriptor is
// closed.
func InheritCgroup(fd int) *Cgroup {
	dir, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil
	}
	unix.CloseOnExec(fd)
	return &Cgroup{dir, fd}
}

// Close closes the descriptor. The group remains.
func (g *Cgroup) Close() {
	if g != nil {
		unix.Close(g.FD)
	}
}

// removeStale removes the groups of jobs whose ibrun and agent were both killed. The kernel refuses to remove a group that
// contains a process. A group that is younger than a minute stays: its first process may be about to start.
func removeStale(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, groupPrefix+"*"))
	if err != nil {
		return // parent contains glob characters, so it contains no group of ibrun
	}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(dir) // it may be in use
		}
	}
}

// Kill kills all processes of the group if the kernel supports it (Linux 5.14).
func (g *Cgroup) Kill() {
	if g != nil {
		_ = os.WriteFile(filepath.Join(g.Dir, "cgroup.kill"), []byte("1"), 0) // KillDescendants searches the process tree as well
	}
}

// Remove removes the group, and groups that were created inside it. All of its processes must have been reaped.
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
