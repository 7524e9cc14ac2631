package jobsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// NewSuffix is added to the name of a socket that does not accept connections yet.
const NewSuffix = ".new"

// Dirs returns the directories in which sockets may be, in order of preference. Each is private to this user. With
// IBRUN_RUNTIME_DIR it is the only one.
func Dirs(getenv func(string) string) (dirs []string) {
	if dir := getenv("IBRUN_RUNTIME_DIR"); dir != "" {
		return []string{dir}
	}
	uid := os.Geteuid()
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "ibrun"))
	}
	dirs = append(dirs, fmt.Sprintf("/run/user/%d/ibrun", uid), fmt.Sprintf("/tmp/ibrun-%d", uid))
	if len(dirs) == 3 && dirs[0] == dirs[1] {
		dirs = dirs[1:]
	}
	return dirs
}

// CheckPrivate returns an error unless path is of this kind, belongs to this user, and other users have no access to it. It is
// ErrRefused unless path cannot be examined.
func CheckPrivate(path string, kind fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	switch {
	case info.Mode().Type() != kind:
		names := map[fs.FileMode]string{fs.ModeDir: "directory", fs.ModeSocket: "socket"}
		return fmt.Errorf("%s is %w: it is not a %s", path, ErrRefused, names[kind])
	case int(s.Uid) != os.Geteuid():
		return fmt.Errorf("%s is %w: it belongs to user %d", path, ErrRefused, s.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is %w: other users have access (mode %04o)", path, ErrRefused, info.Mode().Perm())
	}
	return nil
}

// PeerUID returns the user id of the process at the other end of a connection.
func PeerUID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	errControl := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(errControl, err); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
