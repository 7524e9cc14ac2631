package fabrictest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// leaves is how many messages a peer sends before it goes.
const leaves = 20

// farewell sends the last messages of a peer.
func (p *peer) farewell(to int) error {
	for i := range leaves {
		if err := p.send(to, fill(make([]byte, 8*i), uint64(i)), nil); err != nil {
			return err
		}
	}
	return nil
}

// mourn takes the last messages of a peer, then the word that it has gone, and tries to reach it nevertheless.
func (p *peer) mourn(gone int) error {
	for i := range leaves {
		if err := p.expect(gone, 8*i, uint64(i)); err != nil {
			return fmt.Errorf("last messages: %w", err)
		}
	}
	ev, err := p.next(gone)
	if err != nil {
		return err
	}
	if ev.Kind != fabric.PeerDown || ev.Err == nil {
		return fmt.Errorf("peer %d has gone, but it says %+v", gone, ev)
	}
	return p.answers(gone, fabric.ErrPeerDown)
}

// answers checks what an endpoint says to everything.
func (p *peer) answers(to int, want error) error {
	if err := p.ways[to].Send([]byte("hello"), nil); !errors.Is(err, want) {
		return fmt.Errorf("send to %d: %v instead of %v", to, err, want)
	}
	b := exposed{b: make([]byte, 8)}
	if _, err := p.ways[to].Read(b.b, b.Region, fabric.RemoteKey{}, 1); p.caps.Read && !errors.Is(err, want) {
		return fmt.Errorf("read from %d: %v instead of %v", to, err, want)
	}
	if _, err := p.ways[to].Write(b.b, b.Region, fabric.RemoteKey{}, 1); p.caps.Write && !errors.Is(err, want) {
		return fmt.Errorf("write to %d: %v instead of %v", to, err, want)
	}
	return nil
}

// chat sends messages to and fro between this peer and another. Meanwhile nobody may be said to have gone.
func (p *peer) chat(with int) error {
	for i := range 100 {
		if err := p.send(with, fill(make([]byte, i), uint64(i)), nil); err != nil {
			return err
		}
		if err := p.expect(with, i, uint64(i)); err != nil {
			return err
		}
	}
	for _, ev := range p.kept {
		if ev.Kind != fabric.Message {
			return fmt.Errorf("chatting with %d: %+v", with, ev)
		}
	}
	return nil
}

// checkDomainCloses: who leaves is missed by all, once and after its last message, and the others go on.
func checkDomainCloses(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 3)
	w.each(func(p *peer) error {
		if p.self == 1 {
			if err := errors.Join(p.farewell(0), p.farewell(2)); err != nil {
				return err
			}
			return p.Close()
		}
		if err := p.mourn(1); err != nil {
			return err
		}
		if err := p.chat(2 - p.self); err != nil {
			return err
		}
		return p.ways[1].Close()
	})
}

// checkEndpointCloses: who closes one way is missed by that peer alone, and cannot use the way any more.
func checkEndpointCloses(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 3)
	w.each(func(p *peer) error {
		switch p.self {
		case 0:
			if err := p.mourn(1); err != nil {
				return err
			}
			return p.chat(2)
		case 1:
			if err := p.farewell(0); err != nil {
				return err
			}
			if err := errors.Join(p.ways[0].Close(), p.ways[0].Close()); err != nil {
				return err
			}
			if err := p.answers(0, fabric.ErrClosed); err != nil {
				return err
			}
			return p.chat(2)
		}
		if err := p.chat(0); err != nil {
			return err
		}
		return p.chat(1)
	})
}

// checkClosed: a domain that is closed says so, and may be closed again.
func checkClosed(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	w.each(func(p *peer) error {
		if err := errors.Join(p.Close(), p.Close(), p.ways[0].Close()); err != nil {
			return err
		}
		var errs [4]error
		_, errs[0] = p.Poll(p.evs[:])
		_, _, errs[1] = p.Arm()
		_, errs[2] = p.Connect(0, nil)
		errs[3] = errors.Join(p.answers(0, fabric.ErrClosed), p.answers(1, fabric.ErrClosed))
		for i, call := range []string{"poll", "arm", "connect"} {
			if !errors.Is(errs[i], fabric.ErrClosed) {
				return fmt.Errorf("%s after close: %v", call, errs[i])
			}
		}
		return errs[3]
	})
}
