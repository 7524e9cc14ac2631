package fdpass

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/leakcheck"
	"github.com/ibrun/ibrun/internal/waittest"
)

// pair returns two connected packet sockets.
func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return fds[0], fds[1]
}

// TestPass: a message arrives with its descriptors, which are close-on-exec.
func TestPass(t *testing.T) {
	a, b := pair(t)
	before := leakcheck.Take(t, leakcheck.Files)
	var r Receiver
	buf := make([]byte, 10)
	if _, _, err := r.Receive(b, buf); err != unix.EAGAIN {
		t.Errorf("without a message: %v", err)
	}
	for _, n := range []int{0, 1, Max} {
		if err := Send(a, []byte("hello"), slices.Repeat([]int{a}, n)...); err != nil {
			t.Fatal(err)
		}
		got, fds, err := r.Receive(b, buf)
		if err != nil || string(buf[:got]) != "hello" || len(fds) != n {
			t.Fatalf("%q, %d descriptors instead of %d, %v", buf[:got], len(fds), n, err)
		}
		for _, fd := range fds {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("flags %#x, %v", flags, err)
			}
		}
		Discard(fds...)
	}
	if err := Send(a, nil, make([]int, Max+1)...); err == nil {
		t.Error("more descriptors than the limit were sent")
	}
	before.Compare(t)
}

// TestTruncated: if not all descriptors fit, those that did are closed, and the message is an error.
func TestTruncated(t *testing.T) {
	a, b := pair(t)
	before := leakcheck.Take(t, leakcheck.Files)
	if err := unix.Sendmsg(a, []byte("x"), unix.UnixRights(slices.Repeat([]int{a}, 2*Max)...), nil, 0); err != nil {
		t.Fatal(err)
	}
	var r Receiver
	if _, fds, err := r.Receive(b, make([]byte, 1)); !errors.Is(err, ErrTruncated) || fds != nil {
		t.Errorf("%v, %v", fds, err)
	}
	before.Compare(t)
}

// TestReceiveAllocs: a message without descriptors costs no allocation.
func TestReceiveAllocs(t *testing.T) {
	a, b := pair(t)
	r, buf, msg := new(Receiver), make([]byte, 1), []byte{1}
	if n := alloctest.Count(100, func() {
		if err := unix.Send(a, msg, 0); err != nil {
			t.Fatal(err)
		}
		if n, fds, err := r.Receive(b, buf); n != 1 || fds != nil || err != nil {
			t.Fatal(n, fds, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDiscardLinger: Discard of a socket whose close would wait for unsent data returns immediately, and the socket is closed.
func TestDiscardLinger(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String()) // what is written is not read
	if err != nil {
		t.Fatal(err)
	}
	file, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Close(), c.Close(), unix.SetNonblock(fd, true)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 1<<20))
	}
	const linger = 3600 // seconds, far longer than the test waits
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: linger}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		Discard(fd)
		close(done)
	}()
	waittest.Receive(t, "Discard returns", done)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the descriptor is still open: %v", err)
	}
}

// TestDiscardOthers: Discard closes descriptors of other types, and ignores numbers that name none.
func TestDiscardOthers(t *testing.T) {
	before := leakcheck.Take(t, leakcheck.Files)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var fds []int
	for _, f := range []*os.File{r, w} {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
		f.Close()
	}
	Discard(append(fds, -1)...)
	for _, fd := range fds {
		waittest.Until(t, "another goroutine has closed the descriptor", func() bool {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			return err == unix.EBADF
		})
	}
	before.Compare(t)
}

// TestCheckUnixSocket: only a Unix socket of the right type is accepted.
func TestCheckUnixSocket(t *testing.T) {
	a, _ := pair(t)
	if err := CheckUnixSocket(a, unix.SOCK_SEQPACKET); err != nil {
		t.Error(err)
	}
	tcp, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tcp)
	for _, bad := range [][2]int{{a, unix.SOCK_STREAM}, {tcp, unix.SOCK_STREAM}, {0, unix.SOCK_SEQPACKET}, {-1, unix.SOCK_STREAM}} {
		if err := CheckUnixSocket(bad[0], bad[1]); !errors.Is(err, ErrUnexpected) {
			t.Errorf("descriptor %d as type %d: %v", bad[0], bad[1], err)
		}
	}
}

// rights returns a control message with these descriptors.
func rights(fds ...int) []byte { return unix.UnixRights(fds...) }

// TestRightsPrefixes: a control message that is cut short is an error, or has no descriptors.
func TestRightsPrefixes(t *testing.T) {
	whole := rights(5, 6, 7)
	if fds, err := parse(whole); err != nil || !slices.Equal(fds, []int{5, 6, 7}) {
		t.Errorf("the whole: %v, %v", fds, err)
	}
	for n := range unix.CmsgLen(3 * 4) {
		if fds, err := parse(whole[:n]); err == nil && len(fds) != 0 {
			t.Errorf("%d bytes: %v", n, fds)
		}
	}
}

func FuzzRights(f *testing.F) {
	f.Add(rights(1))
	f.Add(rights(1, 2, 3)[:20])
	f.Add(append(rights(1), rights(2)...))
	f.Add([]byte("\x11\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x000")) // one byte of descriptors
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 8 { // the kernel writes no lengths that Go's int cannot hold
			binary.NativeEndian.PutUint64(b, binary.NativeEndian.Uint64(b)&(1<<40-1))
		}
		if fds, err := parse(b); err == nil && len(fds)*4 > len(b) {
			t.Errorf("%d descriptors in %d bytes", len(fds), len(b))
		}
	})
}

// TestMessageBeforeEnd: a message that was sent before the socket was closed arrives, at whatever moment the receiver looks.
func TestMessageBeforeEnd(t *testing.T) {
	const rounds = 5_000
	senders := make(chan int)
	sent := make(chan error, 1)
	go func() {
		for fd := range senders {
			sent <- errors.Join(Send(fd, []byte("x")), unix.Close(fd))
		}
	}()
	defer close(senders)
	var r Receiver
	for range rounds {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		senders <- fds[0]
		n, buf := 0, make([]byte, 2)
		err = unix.EAGAIN
		for polls := 1; err == unix.EAGAIN; polls++ {
			n, _, err = r.Receive(fds[1], buf)
			if polls%500 == 0 {
				runtime.Gosched() // to the sender, if there is one processor
			}
		}
		if err := errors.Join(err, <-sent); err != nil || n != 1 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if n, _, err := r.Receive(fds[1], buf); err != nil || n != 0 {
			t.Fatalf("after the message: %d bytes, %v", n, err)
		}
		unix.Close(fds[1])
	}
}
