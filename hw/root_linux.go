package hw

import (
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// rootTree is the root directory of this machine, from which sysfs and procfs are read. A port has tables of up to a
// thousand files, and every process that opens a device reads them. Through os.DirFS each file takes four times as long.
// rootTree keeps the directory of the last file open, so a file costs one open, one read and one close. It must not be
// used concurrently.
type rootTree struct {
	fs.ReadLinkFS
	dir string
	fd  int // of dir, -1 for none
	buf []byte
}

// pageSize is the least that a read returns while the file has more data.
const pageSize = 4096

// openRoot returns the tree of this machine. The caller must close it.
func openRoot() (*rootTree, error) {
	tree, ok := os.DirFS("/").(fs.ReadLinkFS)
	if !ok {
		return nil, fmt.Errorf("hw: os.DirFS has no links: %w", fs.ErrInvalid)
	}
	return &rootTree{ReadLinkFS: tree, fd: -1, buf: make([]byte, maxFile)}, nil
}

// readFile reads a whole file. The kernel returns up to a page per read.
func (s *rootTree) readFile(name string) (string, error) {
	n, err := s.read(path.Split(name))
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return string(s.buf[:n]), nil
}

// read reads a file into buf and returns its length.
func (s *rootTree) read(dir, base string) (int, error) {
	if s.fd < 0 || dir != s.dir {
		if err := s.openDir(dir); err != nil {
			return 0, err
		}
	}
	fd, err := unix.Openat(s.fd, base, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, s.buf)
	for last := n; err == nil && last >= pageSize && n < len(s.buf); n += last {
		last, err = unix.Read(fd, s.buf[n:])
	}
	return n, err
}

// openDir opens the directory of the next files and closes the previous one.
func (s *rootTree) openDir(dir string) error {
	s.close()
	fd, err := unix.Open("/"+dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		s.dir, s.fd = dir, fd
	}
	return err
}

func (s *rootTree) close() {
	if s.fd >= 0 {
		unix.Close(s.fd) // the directory was only read, so an error loses no data
	}
	s.fd = -1
}
