package fabrictest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// lastMessages is the number of messages that a peer sends before it closes.
const lastMessages = 20

// sendLast sends the last messages of a peer.
func (p *peer) sendLast(to int) error {
	for i := range lastMessages {
		if err := p.send(to, fill(make([]byte, 8*i), uint64(i)), nil); err != nil {
			return err
		}
	}
	return nil
}

// expectDown receives the last messages of a peer and its PeerDown event. Then it checks that the endpoint returns ErrPeerDown.
func (p *peer) expectDown(gone int) error {
	for i := range lastMessages {
		if err := p.expect(gone, 8*i, uint64(i)); err != nil {
			return fmt.Errorf("last messages: %w", err)
		}
	}
	ev, err := p.next(gone)
	if err != nil {
		return err
	}
	if ev.Kind != fabric.PeerDown || ev.Err == nil {
		return fmt.Errorf("peer %d is down, but the event is %+v", gone, ev)
	}
	return p.expectError(gone, fabric.ErrPeerDown)
}

// expectError checks that every call of an endpoint returns want.
func (p *peer) expectError(to int, want error) error {
	if err := p.eps[to].Send([]byte("hello"), nil); !errors.Is(err, want) {
		return fmt.Errorf("send to %d: %v instead of %v", to, err, want)
	}
	b := buffer{b: make([]byte, 8)}
	if _, err := p.eps[to].Read(b.b, b.Region, fabric.RemoteKey{}, 1); p.caps.Read && !errors.Is(err, want) {
		return fmt.Errorf("read from %d: %v instead of %v", to, err, want)
	}
	if _, err := p.eps[to].Write(b.b, b.Region, fabric.RemoteKey{}, 1); p.caps.Write && !errors.Is(err, want) {
		return fmt.Errorf("write to %d: %v instead of %v", to, err, want)
	}
	return nil
}

// pingPong exchanges messages between this peer and another. No PeerDown event may arrive meanwhile.
func (p *peer) pingPong(with int) error {
	for i := range 100 {
		if err := p.send(with, fill(make([]byte, i), uint64(i)), nil); err != nil {
			return err
		}
		if err := p.expect(with, i, uint64(i)); err != nil {
			return err
		}
	}
	for _, ev := range p.queue {
		if ev.Kind != fabric.Message {
			return fmt.Errorf("exchanging messages with %d: %+v", with, ev)
		}
	}
	return nil
}

// checkDomainCloses: when a peer closes its domain, all others receive PeerDown once, after its last message, and go on.
func checkDomainCloses(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 3)
	w.each(func(p *peer) error {
		if p.self == 1 {
			if err := errors.Join(p.sendLast(0), p.sendLast(2)); err != nil {
				return err
			}
			return p.Close()
		}
		if err := p.expectDown(1); err != nil {
			return err
		}
		if err := p.pingPong(2 - p.self); err != nil {
			return err
		}
		return p.eps[1].Close()
	})
}

// checkEndpointCloses: when a peer closes one endpoint, only that peer receives PeerDown, and the endpoint returns ErrClosed.
func checkEndpointCloses(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 3)
	w.each(func(p *peer) error {
		switch p.self {
		case 0:
			if err := p.expectDown(1); err != nil {
				return err
			}
			return p.pingPong(2)
		case 1:
			if err := p.sendLast(0); err != nil {
				return err
			}
			if err := errors.Join(p.eps[0].Close(), p.eps[0].Close()); err != nil {
				return err
			}
			if err := p.expectError(0, fabric.ErrClosed); err != nil {
				return err
			}
			return p.pingPong(2)
		}
		if err := p.pingPong(0); err != nil {
			return err
		}
		return p.pingPong(1)
	})
}

// checkOwnClose: a closed domain returns ErrClosed, and may be closed again.
func checkOwnClose(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	w.each(func(p *peer) error {
		if err := errors.Join(p.Close(), p.Close(), p.eps[0].Close()); err != nil {
			return err
		}
		var errs [4]error
		_, errs[0] = p.Poll(p.evs[:])
		_, _, errs[1] = p.Arm()
		_, errs[2] = p.Connect(0, nil)
		errs[3] = errors.Join(p.expectError(0, fabric.ErrClosed), p.expectError(1, fabric.ErrClosed))
		for i, call := range []string{"poll", "arm", "connect"} {
			if !errors.Is(errs[i], fabric.ErrClosed) {
				return fmt.Errorf("%s after close: %v", call, errs[i])
			}
		}
		return errs[3]
	})
}
