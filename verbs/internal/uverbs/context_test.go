package uverbs

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/waittest"
)

func TestOpen(t *testing.T) {
	c, _ := start(t)
	if c.AsyncFD() != 2 || c.CompVectors() != 2 {
		t.Errorf("descriptor %d, %d vectors", c.AsyncFD(), c.CompVectors())
	}
}

// TestOpenFails checks that a failed Open closes the descriptors that it has opened.
func TestOpenFails(t *testing.T) {
	for _, step := range []string{"Open", "GET_CONTEXT", "SetNonblock"} {
		f := &fake{fail: map[string]error{step: syscall.EACCES}}
		c, err := OpenWith(f, device)
		var e *Error
		if c != nil || !errors.As(err, &e) || !errors.Is(err, syscall.EACCES) || e.Hint == "" {
			t.Errorf("%s: got %v, %v", step, c, err)
		}
		if len(f.open) > 0 {
			t.Errorf("%s: descriptors %v were left open", step, f.open)
		}
	}
	f, other := &fake{}, device
	other.Dev++
	if c, err := OpenWith(f, other); c != nil || !errors.Is(err, syscall.ENODEV) || len(f.open) > 0 {
		t.Errorf("a file of another device: %v, %v, descriptors %v", c, err, f.open)
	}
}

func TestCompChannel(t *testing.T) {
	c, f := start(t)
	fd, err := c.CreateCompChannel()
	if err != nil || !slices.Contains(f.open, fd) {
		t.Fatalf("descriptor %d of %v, %v", fd, f.open, err)
	}
	if err := c.CloseCompChannel(fd); err != nil {
		t.Error(err)
	}
	f.fail["SetNonblock"] = syscall.EBADF
	if fd, err := c.CreateCompChannel(); fd != -1 || !errors.Is(err, syscall.EBADF) || len(f.open) != 2 {
		t.Errorf("descriptor %d, %v, open %v", fd, err, f.open)
	}
	f.fail["CREATE_COMP_CHANNEL"] = syscall.EMFILE
	if fd, err := c.CreateCompChannel(); fd != -1 || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("descriptor %d, %v", fd, err)
	}
}

func TestMap(t *testing.T) {
	c, f := start(t)
	mem, err := c.Map(4096, 8192)
	if err != nil || len(mem) != 8192 {
		t.Fatal(len(mem), err)
	}
	c.Close()
	if err := c.Unmap(mem); err != nil || f.mapped != 0 {
		t.Errorf("unmapped after Close: %v, %d left", err, f.mapped)
	}
	if _, err := c.Map(4096, 8192); !errors.Is(err, ErrClosed) {
		t.Errorf("mapped after Close: %v", err)
	}
}

// TestCloseWaits checks that the descriptor is closed only after the last system call on it has returned. Otherwise the call
// could use another file with the same descriptor.
func TestCloseWaits(t *testing.T) {
	c, f := start(t)
	inside, leave := make(chan bool), make(chan bool)
	b := c.NewDoorbell(1)
	c.post = func(int, []byte, []byte) error {
		inside <- true
		<-leave
		return nil
	}
	done := make(chan error)
	go func() { done <- b.Ring() }()
	<-inside
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if err := b.Ring(); !errors.Is(err, ErrClosed) {
		t.Errorf("rang after Close: %v", err)
	}
	if len(f.open) != 2 {
		t.Errorf("descriptors %v are open during a call, want 2", f.open)
	}
	leave <- true
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(f.open) != 0 {
		t.Errorf("descriptors %v are open after the call", f.open)
	}
}

// TestConcurrent rings from many goroutines while the context is closed. The fake knows which descriptors are open.
func TestConcurrent(t *testing.T) {
	c, _ := start(t)
	b, n := c.NewDoorbell(1), c.NewNotifier(2)
	var all sync.WaitGroup
	var rounds atomic.Int32
	for range 8 {
		all.Go(func() {
			for ; ; rounds.Add(1) {
				_, err := c.QueryPort(1)
				if err = errors.Join(err, b.Ring(), n.Notify(false)); err != nil {
					if !errors.Is(err, ErrClosed) || errors.Is(err, syscall.EBADF) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	waittest.Until(t, "the goroutines ring", func() bool { return rounds.Load() >= 1000 || t.Failed() })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
}

// TestOpenClose checks that no descriptor leaks.
func TestOpenClose(t *testing.T) {
	f := &fake{}
	for range 1000 {
		c, err := OpenWith(f, device)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.open) > 0 {
		t.Errorf("%d descriptors were left open", len(f.open))
	}
}

func TestAllocs(t *testing.T) {
	c, _ := start(t)
	b, n := c.NewDoorbell(1), c.NewNotifier(2)
	for name, call := range map[string]func() error{
		"Ring":   b.Ring,
		"Notify": func() error { return n.Notify(true) },
	} {
		if got := alloctest.Count(100, func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		}); got != 0 {
			t.Errorf("%s allocates %v times", name, got)
		}
	}
}

// TestPrepared checks that the command of a doorbell contains its queue pair, and the address of a response that stays allocated.
func TestPrepared(t *testing.T) {
	c, f := start(t)
	one, two := c.NewDoorbell(1), c.NewDoorbell(2)
	for _, b := range []*Doorbell{two, one, two} {
		if err := b.Ring(); err != nil {
			t.Fatal(err)
		}
		if u64(f.command, 8) != address(f.resp) || len(f.resp) != 4 {
			t.Errorf("response at %#x, want %#x", u64(f.command, 8), address(f.resp))
		}
	}
	if abi.Command(u32(f.command, 0)) != abi.CmdPostSend || u32(f.command, 16) != 2 {
		t.Errorf("command % x", f.command)
	}
}

// ringing is a kernel whose doorbell blocks until a channel is closed. The queue pair is in use meanwhile.
type ringing struct {
	fake
	begun chan struct{} // closed when the doorbell is in progress
	end   chan struct{} // closed when it is to end
	ended chan struct{} // closed when it has
	busy  atomic.Bool
	tries int // to destroy it
}

func (k *ringing) Post(int, []byte, []byte) error {
	k.busy.Store(true)
	close(k.begun)
	<-k.end
	k.busy.Store(false)
	close(k.ended)
	return nil
}

func (k *ringing) Write(fd int, command, resp []byte) error {
	if abi.Command(u32(command, 0)) == abi.CmdDestroyQP {
		if k.tries++; k.tries == 3 { // it ends during this try, which comes too early nevertheless
			close(k.end)
			<-k.ended
			return syscall.EBUSY
		}
		if k.busy.Load() {
			return syscall.EBUSY
		}
	}
	return k.fake.Write(fd, command, resp)
}

// TestDestroyRinging checks that a queue pair is destroyed although a doorbell is in progress.
func TestDestroyRinging(t *testing.T) {
	k := &ringing{begun: make(chan struct{}), end: make(chan struct{}), ended: make(chan struct{})}
	c, err := OpenWith(k, device)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	done := make(chan error)
	go func() { done <- c.NewDoorbell(7).Ring() }()
	<-k.begun
	if _, err := c.DestroyQP(7); err != nil || k.tries != 4 {
		t.Errorf("after %d tries: %v", k.tries, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestDestroyBusy checks that a queue pair that is in use for another reason is not destroyed a second time.
func TestDestroyBusy(t *testing.T) {
	c, f := start(t)
	tries := 0
	f.respond = func([]byte, []byte) error {
		tries++
		return syscall.EBUSY
	}
	if _, err := c.DestroyQP(7); !errors.Is(err, syscall.EBUSY) || tries != 1 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}
