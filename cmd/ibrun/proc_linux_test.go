package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/threadtest"
)

// alive returns the living processes with the mark.
func (p *process) alive() (pids []int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, dir := range dirs {
		if env, err := environment(dir); err == nil && bytes.Contains(env, []byte(p.mark)) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				p.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// environment returns the environment of the process with this directory in /proc. Root in a container may not read that of
// another user's process, because it has no CAP_SYS_PTRACE. The other user may.
func environment(dir string) (text []byte, err error) {
	path := filepath.Join(dir, "environ")
	text, err = os.ReadFile(path)
	var owner unix.Stat_t
	if !errors.Is(err, fs.ErrPermission) || os.Geteuid() != 0 || unix.Stat(dir, &owner) != nil {
		return text, err
	}
	threadtest.Run(func() { // the thread accesses files as that user until it ends
		if err = errors.Join(unix.Setfsgid(int(owner.Gid)), unix.Setfsuid(int(owner.Uid))); err == nil {
			text, err = os.ReadFile(path)
		}
	})
	return text, err
}

// stat returns the state and the parent of a process.
func (p *process) stat(pid int) (state string, parent int) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
		p.t.Fatal(err)
	}
	return state, parent
}

// bytesMoved returns how many bytes a process has read and written, from and to whatever.
func (p *process) bytesMoved(pid int) (read, written int) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", &read, &written); err != nil {
		p.t.Fatal(err)
	}
	return read, written
}
