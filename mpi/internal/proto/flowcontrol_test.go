package proto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
)

func (e *Engine) lockedPollOnce() error {
	e.lock()
	defer e.unlock()
	return e.poller.pollOnce()
}

// TestFlood sends far more than the receiver may store, before it receives anything.
func TestFlood(t *testing.T) {
	const (
		count = 3000
		size  = 1000
		bound = 64 << 10
		ring  = 32 << 10 // what may be in the transport when the sender is paused
	)
	es := open(t, 2, nil, func(c *Config) { c.UnexpectedLimit = bound })
	a, b := es[0], es[1]
	hs := make([]Handle, count)
	for i := range hs {
		buf := make([]byte, size)
		binary.LittleEndian.PutUint64(buf, uint64(i))
		var err error
		if hs[i], err = a.Isend(to(0, 1, 1), buf, Standard); err != nil {
			t.Fatal(err)
		}
	}
	for waiting := 0; waiting < count; {
		for _, e := range es {
			if err := e.lockedPollOnce(); err != nil {
				t.Fatal(err)
			}
		}
		_, waiting = b.Contexts().QueueLengths(testContext)
		if payload := b.unexpected.held - waiting*nodeBytes; payload > bound/2+2*ring {
			t.Fatalf("%d bytes are stored for %d messages", payload, waiting)
		}
	}
	if !a.links.peers[1].paused {
		t.Error("the sender was not paused")
	}
	each(t, es, func(self int, e *Engine) error {
		if self == 0 {
			for i, h := range hs {
				if _, err := e.Requests().Wait(h); err != nil {
					return fmt.Errorf("send %d: %w", i, err)
				}
			}
			return nil
		}
		buf := make([]byte, size)
		for i := range hs {
			if _, err := e.Recv(from(0, 1), buf); err != nil {
				return err
			}
			if n := binary.LittleEndian.Uint64(buf); n != uint64(i) {
				return fmt.Errorf("message %d arrived as number %d", n, i)
			}
		}
		return e.FlushSends()
	})
	for a.links.peers[1].paused {
		if err := errors.Join(a.lockedPollOnce(), b.lockedPollOnce()); err != nil {
			t.Fatal(err)
		}
	}
	if b.unexpected.held != 0 {
		t.Errorf("%d bytes are still in use", b.unexpected.held)
	}
	if err := a.Send(to(0, 1, 1), make([]byte, size), Standard); err != nil { // returns although there is no receive
		t.Fatal(err)
	}
}

// TestCyclicFlood: every process floods the next one before any of them receives.
func TestCyclicFlood(t *testing.T) {
	const n, count, size = 4, 400, 2000
	es := open(t, n, nil, func(c *Config) { c.UnexpectedLimit = 20000 })
	each(t, es, func(self int, e *Engine) error {
		var hs []Handle
		for i := range count {
			h, err := e.Isend(to(self, (self+1)%n, 1), append([]byte{byte(i)}, make([]byte, size)...), Mode(i%2))
			if err != nil {
				return err
			}
			hs = append(hs, h)
		}
		buf := make([]byte, size+1)
		for i := range count {
			if _, err := e.Recv(from((self+n-1)%n, 1), buf); err != nil {
				return err
			}
			if buf[0] != byte(i) {
				return fmt.Errorf("message %d arrived as %d", i, buf[0])
			}
		}
		for _, h := range hs {
			if _, err := e.Requests().Wait(h); err != nil {
				return err
			}
		}
		return e.FlushSends()
	})
}
