package mux

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// sessions returns the two ends of a session.
func sessions(t *testing.T) (host, guest *Session) {
	a, b := net.Pipe() // it has no buffer, so a write blocks until it is read
	host, guest = NewSession(a, Host), NewSession(b, Guest)
	t.Cleanup(func() {
		host.Close()
		guest.Close()
	})
	return host, guest
}

// streams returns the two ends of one stream, opened by the first session.
func streams(t *testing.T, from, to *Session) (a, b *Stream) {
	t.Helper()
	a, err := from.Open()
	if err != nil {
		t.Fatal(err)
	}
	if b, err = to.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

func TestBothDirectionsConcurrently(t *testing.T) {
	host, guest := sessions(t)
	var all sync.WaitGroup
	for range 4 {
		for _, sides := range [][2]*Session{{host, guest}, {guest, host}} {
			a, b := streams(t, sides[0], sides[1])
			for _, ends := range [][2]*Stream{{a, b}, {b, a}} {
				sent := noise(3*window + 17)
				all.Go(func() {
					if n, err := ends[0].Write(sent); n != len(sent) || err != nil {
						t.Errorf("%d bytes written, %v", n, err)
					}
				})
				all.Go(func() {
					got := make([]byte, len(sent))
					if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, sent) {
						t.Errorf("what arrived differs, %v", err)
					}
				})
			}
		}
	}
	all.Wait()
}

func TestSlowReaderBlocksNoOtherStream(t *testing.T) {
	host, guest := sessions(t)
	slow, slowEnd := streams(t, host, guest)
	wrote := make(chan error)
	go func() {
		_, err := slow.Write(make([]byte, 2*window))
		wrote <- err
	}()
	for range 3 {
		a, b := streams(t, host, guest)
		go a.Write(noise(2 * window))
		if _, err := io.ReadFull(b, make([]byte, 2*window)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-wrote:
		t.Fatalf("more than the window was sent without a read (%v)", err)
	default:
	}
	if _, err := io.ReadFull(slowEnd, make([]byte, 2*window)); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
}

func TestCloseArrivesAfterData(t *testing.T) {
	host, guest := sessions(t)
	a, b := streams(t, host, guest)
	a.Write([]byte("last bytes"))
	a.Close()
	a.Close()
	if got, err := io.ReadAll(b); string(got) != "last bytes" || err != nil {
		t.Errorf("%q, %v arrived", got, err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("writing after the other end closed: %v", err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("writing after closing: %v", err)
	}
	b.Close()
	// The close has arrived when the next stream arrives.
	streams(t, guest, host)
	for name, s := range map[string]*Session{"host": host, "guest": guest} {
		s.mu.Lock()
		if len(s.streams) != 1 {
			t.Errorf("%s: %d streams remain, want the newest one", name, len(s.streams))
		}
		s.mu.Unlock()
	}
}

func TestCloseWakesWriter(t *testing.T) {
	host, guest := sessions(t)
	a, b := streams(t, host, guest)
	wrote := make(chan error)
	go func() {
		_, err := a.Write(make([]byte, 2*window))
		wrote <- err
	}()
	io.ReadFull(b, make([]byte, 1))
	b.Close()
	if err := <-wrote; !errors.Is(err, ErrClosed) {
		t.Errorf("the writer returned %v", err)
	}
}

func TestChannelLossEndsSession(t *testing.T) {
	host, guest := sessions(t)
	a, _ := streams(t, host, guest)
	ended := make(chan error)
	go func() {
		_, err := a.Read(make([]byte, 1))
		ended <- err
	}()
	guest.Close()
	if err := <-ended; err == nil {
		t.Error("reading without a peer succeeded")
	}
	<-host.Done()
	if _, err := host.Open(); err == nil {
		t.Error("a session without a channel opened a stream")
	}
	if _, err := host.Accept(); err == nil {
		t.Error("a session without a channel accepted a stream")
	}
}
