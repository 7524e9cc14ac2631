package fabrictest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/alloctest"
)

// checkAllocs: the calls that programs make for every message do not allocate.
func checkAllocs(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	a, b := w.peers[0], w.peers[1]
	header, payload := make([]byte, 32), make([]byte, a.caps.MaxSend-32)
	calls := map[string]func() error{
		"Send and Poll, short": func() error { return deliver(a, b, header, nil) },
		"Send and Poll, long":  func() error { return deliver(a, b, header, payload) },
		"Poll, no event":       func() error { return expectNothing(a) },
		"Arm":                  func() error { _, _, err := a.Arm(); return errors.Join(err, expectNothing(a)) },
	}
	if err := addTransfers(calls, a, b); err != nil {
		t.Fatal(err)
	}
	if g, ok := a.eps[1].(fabric.Gatherer); ok {
		src := newScattered(len(payload), 8, 0)
		calls["SendFrom and Poll"] = func() error {
			return deliverBy(a, b, func() error { return g.SendFrom(header, src, 0, len(payload)) })
		}
	}
	if s, ok := a.Domain.(fabric.SharedMemory); ok {
		calls["Wake"] = func() error { s.Wake(1); return nil }
	}
	for name, call := range calls {
		w.runAlone(func() error {
			var err error
			if n := alloctest.Count(200, func() { err = errors.Join(err, call()) }); n != 0 && err == nil {
				err = fmt.Errorf("%v allocations", n)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	w.runAlone(func() error { return checkRefused(a, b, payload) })
}

// addTransfers adds Read and Write if the limits allow them.
func addTransfers(calls map[string]func() error, a, b *peer) error {
	near, err1 := a.register(make([]byte, 5000))
	far, err2 := b.register(make([]byte, 5000))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if a.caps.Read {
		calls["Read"] = func() error {
			done, err := a.eps[1].Read(near.b, near.Region, far.at(0), 1)
			return a.awaitDone(done, err)
		}
	}
	if s, ok := a.eps[1].(fabric.Scatterer); ok {
		dst := newScattered(16<<10, 4<<10, 0)
		local, err1 := a.register(dst.mem)
		from, err2 := b.register(make([]byte, 16<<10))
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		calls["ReadTo"] = func() error {
			done, err := s.ReadTo(dst, 0, 16<<10, local.Region, from.at(0), 1)
			if errors.Is(err, fabric.ErrNotSupported) {
				return nil // of this device; that does not allocate either
			}
			return a.awaitDone(done, err)
		}
	}
	if a.caps.Write {
		calls["Write"] = func() error {
			done, err := a.eps[1].Write(near.b, near.Region, far.at(0), 1)
			return a.awaitDone(done, err)
		}
	}
	return nil
}

// awaitDone waits for the end of the only transfer in progress.
func (p *peer) awaitDone(done bool, err error) error {
	for !done && err == nil {
		var n int
		if n, err = p.Poll(p.evs[:]); n == 1 {
			return p.evs[0].Err
		}
		runtime.Gosched()
	}
	return err
}

// deliver sends a message from a to b and receives it.
func deliver(a, b *peer, header, payload []byte) error {
	return deliverBy(a, b, func() error { return a.eps[b.self].Send(header, payload) })
}

// deliverBy sends a message from a to b by send and receives it.
func deliverBy(a, b *peer, send func() error) error {
	for {
		err := send()
		if err == nil {
			break
		}
		if err != fabric.ErrAgain {
			return err
		}
		if err := expectNothing(a); err != nil {
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

func expectNothing(p *peer) error {
	n, err := p.Poll(p.evs[:])
	if n != 0 {
		return fmt.Errorf("unexpected event: %+v", p.evs[0])
	}
	return err
}

// checkRefused: a refused Send does not allocate either. It fills the window again if the window opens during the count: a kernel
// may make room late.
func checkRefused(a, b *peer, payload []byte) error {
	send := func() error { return a.eps[b.self].Send(nil, payload) }
	for range 10 {
		var err error
		for err == nil {
			err = send()
		}
		if err != fabric.ErrAgain {
			return err
		}
		again := true
		if n := alloctest.Count(200, func() { again = again && send() == fabric.ErrAgain }); n != 0 && again {
			return fmt.Errorf("send, refused: %v allocations", n)
		}
		if again {
			return nil
		}
	}
	return errors.New("send, refused: the window opened during each count")
}
