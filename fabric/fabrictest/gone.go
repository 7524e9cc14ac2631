package fabrictest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// Killer is an optional interface of a transport under test. A transport whose peers find out that a process was killed only
// from its kernel, and that therefore needs real processes, does not have it: its package tests that itself.
type Killer interface {
	// Kill does to an open domain what the kernel does to it when its process is killed. The domain is closed afterwards.
	Kill(d fabric.Domain) error
}

// checkConnectClosed: a peer that has closed before others connect to it is reported to them, whether it knew them or not: it
// knows peer 0 only.
func checkConnectClosed(t *testing.T, peers Peers) {
	checkConnectGone(t, newWorld(t, peers, 3), func(p *peer) error {
		if err := p.connect(0); err != nil {
			return err
		}
		return p.Close()
	})
}

// checkConnectKilled: the same holds for a peer that was killed.
func checkConnectKilled(t *testing.T, peers Peers) {
	w := newWorld(t, peers, 3)
	k, ok := w.peers[1].transport.(Killer)
	if !ok {
		t.Logf("%s needs a real process to kill", w.peers[1].transport.Name())
		return
	}
	checkConnectGone(t, w, func(p *peer) error { return k.Kill(p.Domain) })
}

// checkConnectGone makes peer 1 of 3 go. The others connect to it, find out, and go on.
func checkConnectGone(t *testing.T, w *world, leave func(p *peer) error) {
	t.Helper()
	w.runOn(leave, w.peers[1])
	w.runOn(func(p *peer) error {
		if err := p.connect(2 - p.self); err != nil {
			return err
		}
		if err := p.connect(1); err != nil && !errors.Is(err, fabric.ErrPeerDown) {
			return err
		}
		if err := p.awaitDown(1); err != nil {
			return err
		}
		return p.pingPong(2 - p.self)
	}, w.peers[0], w.peers[2])
}

// awaitDown sends to a peer that has gone until its PeerDown event arrives. Then it checks that the endpoint returns ErrPeerDown.
func (p *peer) awaitDown(gone int) error {
	isDown := func(ev fabric.Event) bool { return ev.Kind == fabric.PeerDown && int(ev.Peer) == gone }
	for !slices.ContainsFunc(p.queue, isDown) {
		if p.eps[gone] != nil { // otherwise Connect has reported the loss
			err := p.eps[gone].Send(nil, nil)
			if err != nil && err != fabric.ErrAgain && !errors.Is(err, fabric.ErrPeerDown) {
				return fmt.Errorf("send to %d, which has gone: %w", gone, err)
			}
		}
		if err := p.progress(); err != nil {
			return err
		}
	}
	p.queue = slices.DeleteFunc(p.queue, isDown)
	if p.eps[gone] == nil {
		return nil
	}
	return p.expectError(gone, fabric.ErrPeerDown)
}
