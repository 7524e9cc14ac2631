package wakesock

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/auth"
)

// folder is a directory that only this user can enter. The first process makes it and holds a lock on it while it lives, so that
// a later job can detect that a folder was left behind.
type folder struct {
	fd   int
	path string
}

// folderPrefix and nameBytes make the names of folders: the prefix and so many bytes in hexadecimal.
const (
	folderPrefix = "ibrun-"
	nameBytes    = 16
)

// socketName is the name of the listening socket in the folder.
const socketName = "s"

// folderName returns the name of the folder of a node. It follows from the job's key, so no other user can make it first.
func folderName(key auth.Key) string {
	mac := key.MAC("folder", nil)
	return folderPrefix + hex.EncodeToString(mac[:nameBytes])
}

// places returns the folders in which the folder of a node may be, in order of preference: first those that all processes of a
// machine usually have, then the one for temporary files, which may differ between processes.
func places() []string { return []string{"/tmp", "/dev/shm", os.TempDir()} }

// Place identifies the first folder of this kernel in which this process could make the folder of a node. Processes for which it
// differs cannot meet: they run on different machines, or in containers without a common folder. It is empty if there is none.
func Place() string {
	boot, err := hw.BootID()
	if err != nil {
		return ""
	}
	for _, place := range places() {
		var st unix.Stat_t
		if unix.Access(place, unix.W_OK|unix.X_OK) == nil && unix.Stat(place, &st) == nil {
			return fmt.Sprintf("%s-%x-%x", boot, st.Dev, st.Ino)
		}
	}
	return ""
}

// openFolder opens a directory, unless others than this user can enter it. It follows no symbolic link at the end of the path.
func openFolder(path string) (*folder, error) {
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0) {
		err = fmt.Errorf("it must belong to user %d and have mode 0700, but belongs to user %d and has mode %04o: %w",
			os.Geteuid(), st.Uid, st.Mode&0o7777, fs.ErrPermission)
	}
	if err != nil {
		_ = unix.Close(fd) // a directory: nothing is lost
		return nil, &fs.PathError{Op: "use", Path: path, Err: err}
	}
	return &folder{fd, path}, nil
}

// makeFolder makes and locks the folder of a node in the first place where that is possible.
func makeFolder(key auth.Key, places []string) (*folder, error) {
	var errs []error
	for _, place := range places {
		f, err := makeFolderAt(filepath.Join(place, folderName(key)))
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// makeFolderAt makes and locks the folder. It removes folders beside it that processes which were killed have left behind.
func makeFolderAt(path string) (*folder, error) {
	removeStale(filepath.Dir(path))
	for made := false; ; made = true {
		// removeStale of another job may lock the folder before this process does. Then it also removes it.
		if err := unix.Mkdir(path, 0o700); err != nil && !(made && err == unix.EEXIST) {
			return nil, &fs.PathError{Op: "mkdir", Path: path, Err: err}
		}
		f, err := openFolder(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if f.lock() && f.exists() {
			return f, nil
		}
		f.close()
	}
}

// lock locks the folder, unless another process holds the lock.
func (f *folder) lock() bool { return unix.Flock(f.fd, unix.LOCK_EX|unix.LOCK_NB) == nil }

// exists reports whether the folder still has its path.
func (f *folder) exists() bool {
	var opened, named unix.Stat_t
	return unix.Fstat(f.fd, &opened) == nil && unix.Lstat(f.path, &named) == nil &&
		opened.Ino == named.Ino && opened.Dev == named.Dev
}

// socketPath returns a path of the socket that is short enough for a socket address, however long the path of the folder is.
func (f *folder) socketPath() string { return "/proc/self/fd/" + strconv.Itoa(f.fd) + "/" + socketName }

// remove removes the folder, and closes it.
func (f *folder) remove() error {
	errSocket := unix.Unlinkat(f.fd, socketName, 0)
	if errors.Is(errSocket, unix.ENOENT) {
		errSocket = nil
	}
	err := errors.Join(errSocket, unix.Rmdir(f.path))
	f.close()
	if err != nil {
		return &fs.PathError{Op: "remove", Path: f.path, Err: err}
	}
	return nil
}

func (f *folder) close() { _ = unix.Close(f.fd) } // a directory: nothing is lost

// removeStale removes folders of processes that have ended without doing so. What cannot be removed does no harm.
func removeStale(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), folderPrefix)
		if raw, err := hex.DecodeString(name); !ok || err != nil || len(raw) != nameBytes {
			continue
		}
		f, err := openFolder(filepath.Join(base, e.Name()))
		if err != nil {
			continue
		}
		if f.lock() && f.exists() { // another process may have removed it before
			_ = f.remove()
		} else {
			f.close()
		}
	}
}
