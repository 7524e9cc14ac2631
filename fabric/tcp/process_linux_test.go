package tcp

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// TestMain lets the test binary also be peer 1 of 2. It counts the bytes that peer 0 sends, and returns the count in answer to an
// empty message. Addresses are exchanged over the standard streams.
func TestMain(m *testing.M) {
	if os.Getenv("TCP_TEST_PEER") == "" {
		os.Exit(m.Run())
	}
	if err := runCounter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// patient returns a transport whose Close waits until the peers have received what was sent.
func patient() *Transport { return &Transport{Key: [32]byte{1: 7}, Linger: waittest.Limit} }

// shortTimeout is a timeout that makes tests of it short.
const shortTimeout = time.Second

// shortenTimeout gives a domain shortTimeout as the timeout from now on. Until then the peers may take their time to connect.
func shortenTimeout(d *Domain) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settings.timeout, d.timer.slowTick = shortTimeout, shortTimeout/10
	err := d.timer.setInterval(d.timer.slowTick)
	for _, e := range d.endpoints {
		if e.stream.open() {
			err = errors.Join(err, setOptions(e.stream.fd, d.settings.timeout, d.settings.socketBuffer))
		}
	}
	return err
}

// runCounter is peer 1.
func runCounter() error {
	tr := patient()
	tr.Interfaces = []string{"lo"}
	d, err := tr.Open(context.Background(), &fabric.Config{Self: 1, Size: 2})
	if err != nil {
		return err
	}
	fmt.Println(hex.EncodeToString(d.Addr()))
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	addr, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	go func() { // the other end of stdin closes with the test
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3)
	}()
	e, err := d.Connect(0, addr)
	if err != nil {
		return err
	}
	var bytes uint64
	evs := make([]fabric.Event, 8)
	for {
		n, err := d.Poll(evs)
		if err != nil {
			return err
		}
		for _, ev := range evs[:n] {
			switch {
			case ev.Kind == fabric.PeerDown && errors.Is(ev.Err, fabric.ErrPeerClosed):
				return d.Close()
			case ev.Kind != fabric.Message:
				return fmt.Errorf("%+v", ev)
			case len(ev.Data) == 0:
				if err := e.Send(binary.LittleEndian.AppendUint64(nil, bytes), nil); err != nil {
					return err
				}
			}
			bytes += uint64(len(ev.Data))
		}
		if n == 0 {
			runtime.Gosched()
		}
	}
}

// startCounter starts peer 1, and opens and connects peer 0.
func startCounter(t *testing.T) (*exec.Cmd, *Domain, fabric.Endpoint) {
	tr := patient()
	tr.Interfaces = []string{"lo"}
	d, err := tr.Open(t.Context(), &fabric.Config{Self: 0, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "TCP_TEST_PEER=1", "GOMAXPROCS=2")
	c.Stderr = os.Stderr
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() }) // it may have ended
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(in, "%x\n", d.Addr()); err != nil {
		t.Fatal(err)
	}
	e, err := d.Connect(1, addr)
	if err != nil {
		t.Fatal(err)
	}
	return c, d.(*Domain), e
}

// checkCount asks the other process how many bytes it has received.
func checkCount(t *testing.T, d *Domain, e fabric.Endpoint, want uint64) {
	ev := pollUntil(t, d, func() bool {
		err := e.Send(nil, nil)
		if err != nil && err != fabric.ErrAgain {
			t.Fatal(err)
		}
		return err == nil
	})
	if ev.Kind == 0 {
		ev = pollUntil(t, d, func() bool { return false })
	}
	if ev.Kind != fabric.Message || len(ev.Data) != 8 || binary.LittleEndian.Uint64(ev.Data) != want {
		t.Fatalf("%+v instead of %d bytes", ev, want)
	}
}

// trySend sends a message if there is room, and reports whether there was. It also polls; nothing may have happened.
func trySend(t *testing.T, d *Domain, e fabric.Endpoint, b []byte) bool {
	t.Helper()
	err := e.Send(b, nil)
	if err != nil && err != fabric.ErrAgain {
		t.Fatal(err)
	}
	if ev := pollOne(t, d); ev.Kind != 0 {
		t.Fatalf("%+v", ev)
	}
	return err == nil
}

// TestProcesses: a process that is stopped for longer than the timeout, while its window is full, is not lost. A process that is
// killed is. A process that receives an orderly shutdown exits.
func TestProcesses(t *testing.T) {
	t.Parallel()
	t.Run("Stopped", func(t *testing.T) {
		t.Parallel()
		c, d, e := startCounter(t)
		checkCount(t, d, e, 0)
		if err := errors.Join(shortenTimeout(d), c.Process.Signal(unix.SIGSTOP)); err != nil {
			t.Fatal(err)
		}
		var sent uint64
		b := make([]byte, maxSend)
		full := func() bool {
			room := trySend(t, d, e, b)
			if room {
				sent += uint64(len(b))
			}
			return !room
		}
		long, step := 5*shortTimeout/2, shortTimeout/100
		if soaktest.On() {
			long = 10 * time.Second
		}
		waittest.Poll(t, "the window is full", full)
		for range long / step {
			waittest.Elapse(t, step, "the peer is not lost")
			full()
		}
		if err := c.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		checkCount(t, d, e, sent)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		pollUntil(t, d, func() bool {
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
				return true
			default:
				return false
			}
		})
	})
	t.Run("Killed", func(t *testing.T) {
		t.Parallel()
		c, d, e := startCounter(t)
		checkCount(t, d, e, 0)
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		ev := pollUntil(t, d, func() bool { return false })
		if ev.Kind != fabric.PeerDown || errors.Is(ev.Err, fabric.ErrPeerClosed) || !errors.Is(ev.Err, fabric.ErrPeerDown) ||
			!strings.Contains(ev.Err.Error(), "its host refuses another one") { // so it was not waited for
			t.Errorf("%+v", ev)
		}
		if err := e.Send(nil, nil); !errors.Is(err, fabric.ErrPeerDown) {
			t.Error(err)
		}
		if err := c.Wait(); err == nil {
			t.Error("it has exited by itself")
		}
	})
}

// TestUnreachable: a peer whose address does not answer is down after the timeout, and the error says why. The same holds if the
// address belongs to a domain with another secret.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	tr := patient()
	tr.Interfaces, tr.Timeout = []string{"lo"}, shortTimeout
	gone, err := tr.Open(t.Context(), &fabric.Config{Self: 1, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	other, _ := openTarget(t) // another job: its peer 0 has the port that peer 1 is expected at
	for name, addr := range map[string][]byte{"closed": gone.Addr(), "other job": other.Addr()} {
		d, err := tr.Open(t.Context(), &fabric.Config{Self: 0, Size: 2})
		if err != nil {
			t.Fatal(err)
		}
		stopProgress(d.(*Domain)) // the peer is not lost before the Read
		e, err := d.Connect(1, addr)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Register(make([]byte, 8))
		if err != nil {
			t.Fatal(err)
		}
		if done, err := e.Read(make([]byte, 8), r, fabric.RemoteKey{}, 5); done || err != nil {
			t.Fatal(done, err)
		}
		stop := make(chan struct{})
		polled := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				select {
				case <-stop:
					polled <- nil
					return
				default:
					_, err = other.Poll(nil)
				}
			}
			polled <- err
		}()
		if ev := pollUntil(t, d.(*Domain), func() bool { return false }); ev.Kind != fabric.Done || ev.Token != 5 || ev.Err == nil {
			t.Errorf("%s: %+v", name, ev)
		}
		if ev := pollUntil(t, d.(*Domain), func() bool { return false }); ev.Kind != fabric.PeerDown ||
			!errors.Is(ev.Err, fabric.ErrPeerDown) || !strings.Contains(ev.Err.Error(), "cannot be reached") {
			t.Errorf("%s: %+v", name, ev)
		}
		close(stop)
		if err := errors.Join(<-polled, d.Close()); err != nil {
			t.Error(err)
		}
	}
}
