package hw

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// sysfs is the tree below /sys. A port has tables of up to a thousand files, which every process that opens a device
// reads: through os.DirFS each takes four times as long as here, where the directory of the last file stays open and a
// file is one open, one read and one close. It is for one goroutine.
type sysfs struct {
	fs.ReadLinkFS
	dir  string
	fd   int // of dir, -1 for none
	page []byte
}

func openSysfs() (*sysfs, error) {
	tree, ok := os.DirFS("/sys").(fs.ReadLinkFS)
	if !ok {
		return nil, fmt.Errorf("hw: os.DirFS has no links: %w", fs.ErrInvalid)
	}
	return &sysfs{ReadLinkFS: tree, fd: -1, page: make([]byte, os.Getpagesize())}, nil
}

// ReadFile reads a file of sysfs, which is never longer than a page and comes in one piece.
func (s *sysfs) ReadFile(name string) ([]byte, error) {
	n, err := s.read(path.Split(name))
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return slices.Clone(s.page[:n]), nil
}

func (s *sysfs) read(dir, base string) (int, error) {
	if s.fd < 0 || dir != s.dir {
		if err := s.enter(dir); err != nil {
			return 0, err
		}
	}
	fd, err := unix.Openat(s.fd, base, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return unix.Read(fd, s.page)
}

func (s *sysfs) enter(dir string) error {
	s.close()
	fd, err := unix.Open("/sys/"+dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		s.dir, s.fd = dir, fd
	}
	return err
}

func (s *sysfs) close() {
	if s.fd >= 0 {
		unix.Close(s.fd) // of a directory that was only read: there is nothing to lose
	}
	s.fd = -1
}
