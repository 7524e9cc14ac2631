package uverbs

import (
	"golang.org/x/sys/unix"
)

// Open opens a device on the running kernel. The file must be the character device with the number in d, so that another file
// with the same name is never used as a device. Nothing stays open after an error.
func Open(d Device) (*Context, error) { return OpenWith(system{}, d) }

// system is the running kernel.
type system struct{}

func (system) Open(path string) (int, uint64, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		unix.Close(fd)
		return -1, 0, unix.ENODEV
	}
	return fd, uint64(st.Rdev), nil
}

// postFunc returns Post of a kernel. For the running kernel it is the function itself, which saves the interface call: doorbells
// are short.
func postFunc(k Kernel) func(fd int, command, resp []byte) error {
	if k == (system{}) {
		return post
	}
	return k.Post
}

func (system) Post(fd int, command, resp []byte) error { return post(fd, command, resp) }

// Write lets the scheduler use the processor meanwhile: commands may wait for memory, for other commands, or for the address of
// a neighbour.
func (system) Write(fd int, command, _ []byte) error {
	for {
		n, err := unix.Write(fd, command)
		switch {
		case err == unix.EINTR: // nothing was done
		case err == nil && n != len(command):
			return unix.EIO // unexpected: the kernel reads a command completely or not at all
		default:
			return err
		}
	}
}

func (system) Mmap(fd int, offset int64, n int) ([]byte, error) {
	return unix.Mmap(fd, offset, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func (system) Munmap(mem []byte) error  { return unix.Munmap(mem) }
func (system) SetNonblock(fd int) error { return unix.SetNonblock(fd, true) }
func (system) Close(fd int) error       { return unix.Close(fd) }

func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
