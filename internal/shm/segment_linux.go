package shm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Segment is memory that processes share: an anonymous file of fixed size. Any goroutine may call its methods.
type Segment struct {
	fd   int
	size int64
}

// Create makes a segment of size bytes. It is sparse: memory is taken when a range is allocated. It has no name that could stay
// behind; the memory is freed with the last descriptor and mapping.
func Create(size int64) (*Segment, error) { return create(size, unix.MemfdCreate, "/dev/shm") }

// create makes a memfd. Old kernels and some sandboxes refuse that; there it opens a file without a name in a memory file system,
// which differs only in the missing seals.
func create(size int64, memfd func(name string, flags int) (int, error), dir string) (*Segment, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	fd, err := memfd("ibrun", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	sealed := err == nil
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		fd, err = unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("shm: create a segment: %w", err)
	}
	s := &Segment{fd: fd, size: size}
	if err := unix.Ftruncate(fd, size); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: size a segment to %d bytes: %w", size, err), s.Close())
	}
	if sealed {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, neededSeals); err != nil {
			return nil, errors.Join(fmt.Errorf("shm: seal a segment: %w", err), s.Close())
		}
	}
	return s, nil
}

// checkSize rejects sizes beyond the limit of files. The kernel would send a signal instead.
func checkSize(size int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if size > 0 && uint64(size) > limit.Cur {
		return fmt.Errorf("shm: create a segment of %d bytes: files are limited to %d bytes (ulimit -f): %w",
			size, limit.Cur, unix.EFBIG)
	}
	return nil
}

// Open takes over a descriptor that another process created and passed on. If it fails, the caller still owns the descriptor.
func Open(fd int) (*Segment, error) {
	size, err := check(fd)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	return &Segment{fd: fd, size: size}, nil
}

// Check returns an error unless fd is what Create makes. Otherwise its owner could truncate it, and the next access to its memory
// would be a SIGBUS.
func Check(fd int) error {
	_, err := check(fd)
	return err
}

// neededSeals are what prevents a file from being truncated, for ever.
const neededSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// check returns the length of the segment fd.
func check(fd int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("shm: fstat a segment: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, fmt.Errorf("shm: descriptor %d is not a segment: not a regular file", fd)
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("shm: descriptor %d is not a segment: not in memory: %w", fd, err)
	}
	// A file that create has opened without memfd cannot be sealed: F_SEAL_SEAL is all it has. It has no name.
	nameless := seals == unix.F_SEAL_SEAL && st.Nlink == 0 && int(st.Uid) == os.Geteuid()
	if seals&neededSeals != neededSeals && !nameless {
		return 0, fmt.Errorf("shm: descriptor %d is not a segment: its length can change (seals %#x)", fd, seals)
	}
	return st.Size, nil
}

// Size returns the length in bytes.
func (s *Segment) Size() int64 { return s.size }

// FD returns the descriptor, for passing it on. The segment still owns it.
func (s *Segment) FD() int { return s.fd }

// Map allocates the pages of a range and maps them, shared and writable. off is a multiple of the page size. The
// mapping outlives Close; Unmap ends it.
func (s *Segment) Map(off int64, n int) ([]byte, error) {
	if err := s.Allocate(off, n); err != nil {
		return nil, err
	}
	return s.Reserve(off, n)
}

// Allocate allocates the pages of a range now, or fails. Without it, touching a page when memory is short would be a SIGBUS.
func (s *Segment) Allocate(off int64, n int) error {
	if err := s.checkRange(off, n); err != nil {
		return err
	}
	for {
		err := unix.Fallocate(s.fd, 0, off, int64(n))
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("shm: allocate %d bytes of shared memory: %w", n, err)
		}
	}
}

// Reserve is Map without allocating pages: only pages that have been allocated may be touched.
func (s *Segment) Reserve(off int64, n int) ([]byte, error) {
	if err := s.checkRange(off, n); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(s.fd, off, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shm: map %d bytes: %w", n, err)
	}
	return b, nil
}

// checkRange returns an error unless the range lies within the segment.
func (s *Segment) checkRange(off int64, n int) error {
	if off < 0 || n <= 0 || off > s.size-int64(n) {
		return fmt.Errorf("shm: map %d bytes at %d of a segment of %d", n, off, s.size)
	}
	return nil
}

// Populate allocates the pages of b, which begins at a page, and enters them in this process's page table now, rather than one by
// one when they are touched. It returns EINVAL on kernels before 5.14, which cannot do that.
func Populate(b []byte) error {
	for {
		err := unix.Madvise(b, unix.MADV_POPULATE_WRITE)
		switch err {
		case nil, unix.EINVAL:
			return err
		case unix.EINTR:
			continue
		case unix.EFAULT: // touching a page would have been a SIGBUS
			err = unix.ENOMEM
		}
		return fmt.Errorf("shm: allocate %d bytes of shared memory: %w", len(b), err)
	}
}

// Unmap ends a mapping. It takes the slice that Map or Reserve returned, unchanged.
func Unmap(b []byte) error { return os.NewSyscallError("munmap", unix.Munmap(b)) }

// Close closes the descriptor. Mappings stay.
func (s *Segment) Close() error {
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}
