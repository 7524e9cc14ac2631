package hw

import (
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// rootTree is this machine's root directory, of which sysfs and procfs are read. A port has tables of up to a thousand
// files, which every process that opens a device reads: through os.DirFS each takes four times as long as here, where the
// directory of the last file stays open and a file is one open, one read and one close. It is for one goroutine.
type rootTree struct {
	fs.ReadLinkFS
	dir string
	fd  int // of dir, -1 for none
	buf []byte
}

// pageSize is the least that a file must have handed out for there to be more.
const pageSize = 4096

func openRoot() (*rootTree, error) {
	tree, ok := os.DirFS("/").(fs.ReadLinkFS)
	if !ok {
		return nil, fmt.Errorf("hw: os.DirFS has no links: %w", fs.ErrInvalid)
	}
	return &rootTree{ReadLinkFS: tree, fd: -1, buf: make([]byte, maxFile)}, nil
}

// readFile reads a file. The kernel hands out up to a page at a time.
func (s *rootTree) readFile(name string) (string, error) {
	n, err := s.read(path.Split(name))
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return string(s.buf[:n]), nil
}

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
		unix.Close(s.fd) // of a directory that was only read: there is nothing to lose
	}
	s.fd = -1
}
