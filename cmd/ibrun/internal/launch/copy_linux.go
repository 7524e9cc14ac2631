package launch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// copiedPrograms are the files of programs on a node that the coordinator has started.
type copiedPrograms struct {
	watcher startedWatcher
	dir     string // of copies; empty: there are none
}

// obtain returns the programs of a job on this node: files of the same name as at the coordinator,
// or copies.
func (c *copiedPrograms) obtain(m *coordinator.Cluster, j *job) ([]program, error) {
	files := m.Job.Started.Programs
	if len(files) != len(j.programs) {
		return nil, fmt.Errorf("node 0 has sent %d files for %d programs", len(files), len(j.programs))
	}
	copies := map[string]string{} // hash: path
	var programs []program
	for i, f := range files {
		if err := checkDir(j.programs[i].Dir); err != nil {
			return nil, err
		}
		p := program{path: string(f.Path), isGo: f.Built}
		var err error
		switch key := string(f.SHA256); {
		case f.SHA256 == nil:
			err = checkSameProgram(string(f.Path), j.place.name)
		case copies[key] != "":
			p.path = copies[key]
		case !isSameFile(f):
			if p.path, err = c.copy(m, i, f); err != nil {
				return nil, fmt.Errorf("copy %s to %s: %w", f.Path, j.place.name, err)
			}
			copies[key] = p.path
		}
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// checkSameProgram returns an error if this host, the one with that name, cannot run the program at this path.
func checkSameProgram(path, host string) error {
	_, err := examinePath(path)
	if err == nil {
		return nil
	}
	return exitcode.Errorf(exitcode.Of(err), "host %s does not have the program: %w; install it there under the same path, or let "+
		"ibrun copy it (--copy)", host, err)
}

// isSameFile reports whether this host has the file of a program.
func isSameFile(f protocol.ProgramFile) bool {
	info, err := os.Stat(string(f.Path))
	if err != nil || info.Size() != f.Size || unix.Access(string(f.Path), unix.X_OK) != nil {
		return false
	}
	sum, _, err := hashFile(string(f.Path))
	return err == nil && bytes.Equal(sum, f.SHA256)
}

// copy receives the file of a program from the coordinator, and returns the path of the copy.
func (c *copiedPrograms) copy(m *coordinator.Cluster, i int, f protocol.ProgramFile) (path string, err error) {
	if c.dir == "" {
		if c.dir, err = makeCopyDir(f.Size); err != nil {
			return "", err
		}
		c.watcher.removeAtDeath(c.dir)
	}
	// Programs of one name do not replace each other, and a program finds its own name in its path.
	dir := filepath.Join(c.dir, strconv.Itoa(i))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(dir, filepath.Base(string(f.Path)))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return "", err
	}
	hash, size := sha256.New(), int64(0)
	err = m.ReceiveFile(i, f.Size, func(chunk []byte) error {
		hash.Write(chunk)
		size += int64(len(chunk))
		_, err := file.Write(chunk)
		return err
	})
	if err = errors.Join(err, file.Close()); err == nil && !bytes.Equal(hash.Sum(nil), f.SHA256) {
		err = errors.New("the file on node 0 has changed meanwhile")
	}
	return path, err
}

// makeCopyDir makes a directory for copies that only this user may use, on a file system that allows programs and has room for
// that many bytes.
func makeCopyDir(size int64) (dir string, err error) {
	parents := []string{os.TempDir()}
	if cache, err := os.UserCacheDir(); err == nil {
		parents = append(parents, cache)
	}
	var errs []error
	for _, parent := range parents {
		var st unix.Statfs_t
		err := unix.Statfs(parent, &st)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = os.MkdirAll(parent, 0o700)
		case err == nil && st.Flags&unix.ST_NOEXEC != 0:
			err = errors.New("its file system is mounted with noexec")
		case err == nil && uint64(size) > st.Bavail*uint64(st.Bsize):
			err = fmt.Errorf("%w: the file needs %d bytes", unix.ENOSPC, size)
		}
		if err == nil {
			dir, err = os.MkdirTemp(parent, "ibrun-copy-") // its mode is 0700
		}
		if err == nil {
			return dir, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", parent, err))
	}
	return "", fmt.Errorf("no directory for a copy (TMPDIR names another): %w", errors.Join(errs...))
}

// remove removes the copies.
func (c *copiedPrograms) remove() {
	if c.dir != "" {
		_ = os.RemoveAll(c.dir) // the watcher has ended everything that uses it; what remains is in a directory for temporary files
	}
}
