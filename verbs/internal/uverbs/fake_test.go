package uverbs

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

var device = Device{Name: "rxe0", Uverbs: "uverbs0", Dev: 231<<8 | 192, Driver: 14, SysPath: "testdata/rxe0"}

// fake is a simulated kernel that keeps the last command. Descriptors are numbers that are never used twice.
type fake struct {
	respond func(command, resp []byte) error // writes the response after the default one, if not nil

	mu            sync.Mutex
	command, resp []byte
	next          int
	open          []int
	mapped        int
	fail          map[string]error // by method
}

func (f *fake) fd() int {
	f.next++
	f.open = append(f.open, f.next)
	return f.next
}

func (f *fake) Open(path string) (int, uint64, error) {
	if err := f.fail["Open"]; err != nil {
		return -1, 0, err
	}
	if path != "/dev/infiniband/uverbs0" {
		return -1, 0, syscall.ENOENT
	}
	return f.fd(), 231<<8 | 192, nil
}

func (f *fake) Write(fd int, command, resp []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.open, fd) {
		return syscall.EBADF
	}
	f.command, f.resp = command, resp
	switch cmd := abi.Command(u32(command, 0)); cmd {
	case abi.CmdGetContext, abi.CmdCreateCompChannel:
		if err := f.fail[cmd.String()]; err != nil {
			return err
		}
		binary.NativeEndian.PutUint32(resp, uint32(f.fd()))
		if cmd == abi.CmdGetContext {
			binary.NativeEndian.PutUint32(resp[4:], 2)
			return nil
		}
	}
	if f.respond != nil {
		return f.respond(command, resp)
	}
	return nil
}

func (f *fake) Post(fd int, command, resp []byte) error { return f.Write(fd, command, resp) }

func (f *fake) Ioctl(fd int, request, resp []byte) error { return f.Write(fd, request, resp) }

func (f *fake) Mmap(_ int, offset int64, n int) ([]byte, error) {
	f.mapped++
	return make([]byte, n), f.fail["Mmap"]
}

func (f *fake) Discard(mem []byte) error {
	clear(mem)
	return nil
}

func (f *fake) Munmap([]byte) error {
	f.mapped--
	return f.fail["Munmap"]
}

func (f *fake) SetNonblock(int) error { return f.fail["SetNonblock"] }

func (f *fake) Close(fd int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.open, fd)
	if i < 0 {
		return syscall.EBADF
	}
	f.open = slices.Delete(f.open, i, i+1)
	return f.fail["Close"]
}

// start opens a context on a fake kernel. When the test ends it checks that everything was closed.
func start(t testing.TB) (*Context, *fake) {
	t.Helper()
	f := &fake{fail: map[string]error{}}
	c, err := OpenWith(f, device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if len(f.open) > 0 {
			t.Errorf("descriptors %v were left open", f.open)
		}
	})
	return c, f
}

func u16(b []byte, at int) uint16 { return binary.NativeEndian.Uint16(b[at:]) }
func u32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
func u64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
