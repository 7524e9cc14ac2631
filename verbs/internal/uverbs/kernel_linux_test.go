package uverbs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSystem makes each system call on files that exist on every machine.
func TestSystem(t *testing.T) {
	var k system
	fd, rdev, err := k.Open("/dev/full")
	if err != nil || rdev != unix.Mkdev(1, 7) {
		t.Fatalf("device %#x, %v", rdev, err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v", flags, err)
	}
	if err := k.Write(fd, make([]byte, 8), nil); err != unix.ENOSPC {
		t.Errorf("write: %v", err)
	}
	if err := k.Post(fd, make([]byte, 8), nil); err != unix.ENOSPC {
		t.Errorf("raw write: %v", err)
	}
	if err := k.Ioctl(fd, make([]byte, 24), nil); err != unix.ENOTTY {
		t.Errorf("ioctl: %v", err)
	}
	if err := k.SetNonblock(fd); err != nil {
		t.Error(err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("file flags %#x, %v", flags, err)
	}
	if _, err := k.Mmap(fd, 1<<20, -1); err == nil {
		t.Error("mapped a negative length")
	}
	if err := k.Close(fd); err != nil {
		t.Error(err)
	}
	zero, _, err := k.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close(zero)
	mem, err := k.Mmap(zero, 0, 8192)
	if err != nil || len(mem) != 8192 {
		t.Fatal(len(mem), err)
	}
	mem[8191] = 1
	if err := k.Munmap(mem); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "uverbs0")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Open(file); err != unix.ENODEV {
		t.Errorf("a file that is not a device: %v", err)
	}
}

// TestShortWrite writes to a pipe that accepts a part of a command. Devices accept all or nothing.
func TestShortWrite(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	for _, write := range []func(int, []byte, []byte) error{system{}.Write, system{}.Post} {
		if err := write(p[1], make([]byte, 1<<20), nil); err != unix.EIO {
			t.Errorf("got %v", err)
		}
		if _, err := unix.Read(p[0], make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpenMissing opens a file that does not exist.
func TestOpenMissing(t *testing.T) {
	var e *Error
	if _, err := Open(Device{Uverbs: "no such device"}); !errors.As(err, &e) || !errors.Is(err, syscall.ENOENT) || e.Hint == "" {
		t.Errorf("got %v", err)
	}
}

func BenchmarkWrite(b *testing.B) {
	null, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	fd, command := int(null.Fd()), make([]byte, 32)
	b.Run("Ring", func(b *testing.B) {
		c, _ := start(b)
		was := c.fd
		defer func() { c.fd = was }()
		c.fd, c.post = fd, system{}.Post
		doorbell := c.NewDoorbell(1)
		for b.Loop() {
			if err := doorbell.Ring(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unix.Write", func(b *testing.B) {
		for b.Loop() {
			if _, err := unix.Write(fd, command); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("File.Write", func(b *testing.B) {
		for b.Loop() {
			if _, err := null.Write(command); err != nil {
				b.Fatal(err)
			}
		}
	})
}
