package main

import (
	"bufio"
	"fmt"
	"io"
	"path"
)

// initrd writes the archive that a Linux kernel unpacks into its first file system: a cpio archive in the form "newc" of the
// kernel's Documentation/driver-api/early-userspace. It keeps the first error and returns it from every later call. It is for
// one goroutine.
type initrd struct {
	out   *bufio.Writer
	n     int64
	inode int
	dirs  map[string]bool
	err   error
}

// newInitrd returns an initrd that is written to out. Method close does not close out.
func newInitrd(out io.Writer) *initrd {
	return &initrd{out: bufio.NewWriter(out), dirs: map[string]bool{".": true}}
}

// Types of entries, as in st_mode.
const (
	typeDir  = 0o040000
	typeFile = 0o100000
	typeChar = 0o020000
)

// dir adds a directory and its parents, except those that the archive already has.
func (w *initrd) dir(name string) error {
	if name = path.Clean(name); !w.dirs[name] {
		w.dir(path.Dir(name))
		w.dirs[name] = true
		w.entry(name, typeDir|0o755, deviceNumber{}, nil)
	}
	return w.err
}

// file adds a file with permissions perm, and its parent directories. The name does not begin with a slash.
func (w *initrd) file(name string, perm uint32, data []byte) error {
	w.dir(path.Dir(name))
	w.entry(path.Clean(name), typeFile|perm, deviceNumber{}, data)
	return w.err
}

// device adds a character device that only root may use.
func (w *initrd) device(name string, major, minor uint32) error {
	w.dir(path.Dir(name))
	w.entry(path.Clean(name), typeChar|0o600, deviceNumber{major, minor}, nil)
	return w.err
}

// close ends the archive.
func (w *initrd) close() error {
	w.inode = -1
	w.entry("TRAILER!!!", 0, deviceNumber{}, nil)
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// deviceNumber is the number of a device, and zero for other entries.
type deviceNumber struct{ major, minor uint32 }

// entry writes one header, its name and its data. All numbers are 8 hexadecimal digits; name and data are padded to
// a multiple of 4 bytes, counted from the beginning of the archive.
func (w *initrd) entry(name string, mode uint32, dev deviceNumber, data []byte) {
	w.inode++
	fields := [13]uint32{
		0: uint32(w.inode), 1: mode, 4: 1, 6: uint32(len(data)),
		9: dev.major, 10: dev.minor, 11: uint32(len(name) + 1),
	}
	head := "070701"
	for _, f := range fields {
		head += fmt.Sprintf("%08X", f)
	}
	w.write([]byte(head + name + "\x00"))
	w.pad()
	w.write(data)
	w.pad()
}

func (w *initrd) write(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
		w.n += int64(len(b))
	}
}

func (w *initrd) pad() { w.write(make([]byte, -w.n&3)) }
