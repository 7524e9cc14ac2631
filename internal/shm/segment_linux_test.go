package shm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/needtest"
)

// noMemfd stands in for memfd_create on a system that refuses it.
func noMemfd(string, int) (int, error) { return -1, unix.EPERM }

// descriptors counts the open ones.
func descriptors(t *testing.T) int {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(dir)
}

// checkDescriptors fails the test if it leaves a descriptor open.
func checkDescriptors(t *testing.T) {
	t.Helper()
	before := descriptors(t)
	t.Cleanup(func() {
		if after := descriptors(t); after != before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

func closeTwice(t *testing.T, s *Segment) {
	t.Helper()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestSegment(t *testing.T) {
	creators := map[string]func(int64) (*Segment, error){
		"memfd":   Create,
		"tmpfile": func(n int64) (*Segment, error) { return create(n, noMemfd, "/dev/shm") },
	}
	for name, make := range creators {
		t.Run(name, func(t *testing.T) {
			checkDescriptors(t)
			s, err := make(1 << 40) // sparse
			if err != nil {
				t.Fatal(err)
			}
			defer closeTwice(t, s)
			fd, err := unix.FcntlInt(uintptr(s.FD()), unix.F_DUPFD, 0)
			if err != nil {
				t.Fatal(err)
			}
			other, err := Open(fd)
			if err != nil {
				t.Fatal(err)
			}
			defer closeTwice(t, other)
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("an opened segment is not closed on exec: %#x, %v", flags, err)
			}
			sameMemory(t, s, other)
			var st unix.Stat_t
			if err := unix.Fstat(s.FD(), &st); err != nil || st.Blocks*512 != 8192 || st.Nlink != 0 {
				t.Errorf("%d bytes are taken, %d names, %v", st.Blocks*512, st.Nlink, err)
			}
		})
	}
}

// sameMemory maps one range of both segments and checks that it is the same memory. Then it tries ranges outside of the segments.
func sameMemory(t *testing.T, s, other *Segment) {
	t.Helper()
	a, err := s.Map(1<<39, 8192)
	if err != nil {
		t.Fatal(err)
	}
	b, err := other.Map(1<<39, 8192)
	if err != nil {
		t.Fatal(err)
	}
	if s.Size() != 1<<40 || other.Size() != 1<<40 || !bytes.Equal(a, make([]byte, 8192)) {
		t.Errorf("sizes %d and %d, zeroed %v", s.Size(), other.Size(), bytes.Equal(a, make([]byte, 8192)))
	}
	a[5000] = 7
	if b[5000] != 7 {
		t.Error("memory is not shared")
	}
	for _, x := range []struct {
		off int64
		n   int
	}{{1 << 40, 4096}, {1<<40 - 4096, 8192}, {-4096, 4096}, {0, 0}, {0, -1}, {1<<63 - 4096, 4096}, {0, 1<<40 + 1}} {
		if b, err := other.Map(x.off, x.n); err == nil {
			t.Errorf("%d bytes at %d are mapped: %d", x.n, x.off, len(b))
		}
	}
	if err := errors.Join(Unmap(a), Unmap(b)); err != nil {
		t.Error(err)
	}
}

func TestSegmentSealed(t *testing.T) {
	checkDescriptors(t)
	s, err := Create(8192)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTwice(t, s)
	for _, size := range []int64{0, 4096, 16384} {
		if err := unix.Ftruncate(s.FD(), size); !errors.Is(err, unix.EPERM) {
			t.Errorf("truncate to %d: %v", size, err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(s.FD()), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("one more seal: %v", err)
	}
}

// TestSegmentRefused: what the system refuses is an error, and no descriptor stays open.
func TestSegmentRefused(t *testing.T) {
	checkDescriptors(t)
	if _, err := create(4096, noMemfd, t.TempDir()+"/missing"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no file system for it: %v", err)
	}
	if _, err := create(4096, func(string, int) (int, error) { return -1, unix.EMFILE }, "/dev/shm"); !errors.Is(err, unix.EMFILE) {
		t.Errorf("no descriptor left: %v", err)
	}
	if _, err := Create(-1); !errors.Is(err, unix.EINVAL) {
		t.Errorf("negative size: %v", err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := Create(8192) // without the check of the limit the kernel would send SIGXFSZ
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EFBIG) || !strings.Contains(err.Error(), "ulimit -f") {
		t.Errorf("beyond the limit of files: %v", err)
	}
}

// TestSegmentNoMemory: a lack of pages is an error of Map or Populate, and not a SIGBUS when they are touched.
func TestSegmentNoMemory(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=65536"); err != nil {
		needtest.Missing(t, "root with the right to mount a small memory file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	checkDescriptors(t)
	s, err := create(1<<20, noMemfd, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTwice(t, s)
	if b, err := s.Map(0, 128<<10); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("128 KiB of 64: %d bytes, %v", len(b), err)
	}
	b, err := s.Map(0, 32<<10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 1
	}
	if err := Unmap(b); err != nil {
		t.Error(err)
	}
	if b, err = s.Reserve(0, 128<<10); err != nil {
		t.Fatal(err)
	}
	err = Populate(b)
	if err == unix.EINVAL {
		t.Log("this kernel cannot populate")
	} else if !errors.Is(err, unix.ENOMEM) {
		t.Errorf("populate 128 KiB of 64: %v", err)
	}
	if err := Unmap(b); err != nil {
		t.Error(err)
	}
}

func TestOpenNotSegment(t *testing.T) {
	checkDescriptors(t)
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	dir, err := unix.Open(t.TempDir(), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	for _, fd := range []int{p[0], dir, -1, 1 << 20} {
		if s, err := Open(fd); err == nil {
			t.Errorf("descriptor %d is a segment of %d bytes", fd, s.Size())
		}
	}
	// A file whose length its owner can change, so that an access to the memory would be a SIGBUS.
	name := t.TempDir() + "/file"
	if err := os.WriteFile(name, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	memfd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memfd)
	for _, seals := range []int{0, unix.F_SEAL_SHRINK, unix.F_SEAL_GROW} { // the last one that is needed is missing
		if _, err := unix.FcntlInt(uintptr(memfd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		for _, fd := range []int{file, memfd} {
			if s, err := Open(fd); err == nil {
				t.Errorf("a file that can be truncated is a segment of %d bytes", s.Size())
			}
		}
	}
}

// TestOpenReadOnly: the pages of a segment that cannot be written to cannot be allocated.
func TestOpenReadOnly(t *testing.T) {
	checkDescriptors(t)
	made, err := Create(8192)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTwice(t, made)
	fd, err := unix.Open(fmt.Sprint("/proc/self/fd/", made.FD()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTwice(t, s)
	if b, err := s.Map(0, 4096); !errors.Is(err, unix.EBADF) {
		t.Errorf("a segment only for reading: %d bytes, %v", len(b), err)
	}
}

// TestReaderPrefetch: Reader.Prefetch loads only from pages that may hold records.
func TestReaderPrefetch(t *testing.T) {
	const space, capacity = 4 * pageBytes, pageBytes
	for n := range 200 {
		mem, err := unix.Mmap(-1, 0, RingBytes(space), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Mprotect(mem[spaceStart+capacity:], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
		p := newPair(t, mem)
		p.w.SetCapacity(capacity)
		for range 200 {
			if ok, err := p.put(n, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if err := errors.Join(p.take(), p.release()); err != nil {
				t.Fatal(err)
			}
			p.prefetch(t)
		}
		if err := unix.Munmap(mem); err != nil {
			t.Fatal(err)
		}
	}
}

// prefetch fails the test if Prefetch reads from a page that is not mapped.
func (p *pair) prefetch(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("the reader at %d: %v", p.r.pos, r)
		}
	}()
	p.r.Prefetch()
}
