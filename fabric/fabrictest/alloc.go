package fabrictest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// checkAllocs: calls that programs make for every message allocate nothing.
func checkAllocs(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	a, b := w.peers[0], w.peers[1]
	header, payload := make([]byte, 32), make([]byte, a.caps.MaxSend-32)
	calls := map[string]func() error{
		"Send and Poll, short": func() error { return cross(a, b, header, nil) },
		"Send and Poll, long":  func() error { return cross(a, b, header, payload) },
		"Poll, nothing there":  func() error { return pollNone(a) },
		"Arm":                  func() error { _, _, err := a.Arm(); return errors.Join(err, pollNone(a)) },
	}
	if err := addTransfers(calls, a, b); err != nil {
		t.Fatal(err)
	}
	if s, ok := a.Domain.(fabric.SharedMemory); ok {
		calls["Ring"] = func() error { s.Wake(1); return nil }
	}
	for name, call := range calls {
		w.one(func() error {
			var err error
			if n := testing.AllocsPerRun(200, func() { err = errors.Join(err, call()) }); n != 0 && err == nil {
				err = fmt.Errorf("%v allocations", n)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	w.one(func() error { return refused(a, b, payload) })
}

// addTransfers adds what the limits allow.
func addTransfers(calls map[string]func() error, a, b *peer) error {
	near, err1 := a.expose(make([]byte, 5000))
	far, err2 := b.expose(make([]byte, 5000))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if a.caps.Read {
		calls["Read"] = func() error {
			done, err := a.ways[1].Read(near.b, near.Region, far.at(0), 1)
			return a.ended(done, err)
		}
	}
	if a.caps.Write {
		calls["Write"] = func() error {
			done, err := a.ways[1].Write(near.b, near.Region, far.at(0), 1)
			return a.ended(done, err)
		}
	}
	return nil
}

// ended waits for the end of the only transfer there is.
func (p *peer) ended(done bool, err error) error {
	for !done && err == nil {
		var n int
		if n, err = p.Poll(p.evs[:]); n == 1 {
			return p.evs[0].Err
		}
		runtime.Gosched()
	}
	return err
}

// cross sends a message and takes it.
func cross(a, b *peer, header, payload []byte) error {
	for {
		err := a.ways[b.self].Send(header, payload)
		if err == nil {
			break
		}
		if err != fabric.ErrAgain {
			return err
		}
		if err := pollNone(a); err != nil {
			return err
		}
		if _, err := b.Poll(nil); err != nil {
			return err
		}
	}
	for {
		n, err := b.Poll(b.evs[:])
		if err != nil || n == 1 {
			return err
		}
		runtime.Gosched()
	}
}

func pollNone(p *peer) error {
	n, err := p.Poll(p.evs[:])
	if n != 0 {
		return fmt.Errorf("something came: %+v", p.evs[0])
	}
	return err
}

// refused sends until there is no room: being refused costs nothing either.
func refused(a, b *peer, payload []byte) error {
	sent := 0
	for ; ; sent++ {
		if err := a.ways[b.self].Send(nil, payload); err == fabric.ErrAgain {
			break
		} else if err != nil {
			return err
		}
	}
	again := true
	n := testing.AllocsPerRun(200, func() { again = again && a.ways[b.self].Send(nil, payload) == fabric.ErrAgain })
	if n != 0 && again {
		return fmt.Errorf("send, refused: %v allocations", n)
	}
	return nil
}
