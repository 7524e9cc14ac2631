package fabrictest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
)

// sleep arms the domain and waits until it is woken. After arming it calls unless, which checks a last time for conditions that
// only the caller knows, such as room to send or a word in shared memory; sleep returns if unless returns true.
func (p *peer) sleep(unless func() (bool, error)) error {
	fd, ready, err := p.Arm()
	if ready || err != nil {
		return err
	}
	if stop, err := unless(); stop || err != nil {
		return err
	}
	for !p.w.failed.Load() { // the watchdog sets it
		if woken, err := p.wait(fd, sleepSlice); woken || err != nil {
			return err
		}
	}
	return errStopped
}

// sleepSlice is how long a sleeper waits before it checks whether the test has failed elsewhere.
const sleepSlice = 200 * time.Millisecond

// wait waits until the armed domain is woken, at most for limit. It reports whether it was.
func (p *peer) wait(fd int, limit time.Duration) (bool, error) {
	if fd >= 0 {
		return waitReadable(fd, limit)
	}
	select {
	case <-p.woken:
		return true, nil
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.woken:
		return true, nil
	case <-timer.C:
		return false, nil
	}
}

// noCheck is for callers of sleep that have nothing to check.
func noCheck() (bool, error) { return false, nil }

// await is next for a peer that sleeps when there is nothing to do.
func (p *peer) await(from int) (fabric.Event, error) {
	for {
		for i, ev := range p.queue {
			if int(ev.Peer) == from {
				p.queue = append(p.queue[:i], p.queue[i+1:]...)
				return ev, nil
			}
		}
		kept, err := p.tryProgress()
		if !kept && err == nil {
			err = p.sleep(noCheck)
		}
		if err != nil {
			return fabric.Event{}, err
		}
	}
}

// awaitMessage is expect for a peer that sleeps when there is nothing to do.
func (p *peer) awaitMessage(from, size int, seed uint64) error {
	ev, err := p.await(from)
	if err == nil && ev.Kind != fabric.Message {
		err = fmt.Errorf("unexpected event %+v, want a message", ev)
	}
	if err == nil {
		err = check(ev.Data, size, seed)
	}
	if err != nil {
		return fmt.Errorf("message %d from %d: %w", seed, from, err)
	}
	return nil
}

// checkIdle: if nothing happens, an armed domain lets its caller sleep.
func checkIdle(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 3)
	w.each(func(p *peer) error { return p.barrier() })
	w.runAlone(func() error {
		p := w.peers[0]
		for range 10000 {
			if _, ok, err := p.poll(); ok || err != nil {
				return fmt.Errorf("unexpected event: %+v: %w", p.evs[0], err)
			}
			fd, ready, err := p.Arm()
			if err != nil {
				return err
			}
			if !ready {
				if woken, err := p.wait(fd, 0); !woken || err != nil {
					return err
				}
			}
		}
		return errors.New("the domain wakes its caller again and again without an event")
	})
}

// checkSleepStream: a receiver that sleeps misses no message of three streams.
func checkSleepStream(t *testing.T, peers Peers) {
	const count = 1500
	w := newConnected(t, peers, 4)
	w.each(func(p *peer) error {
		for i := range count {
			for from := 1; p.self == 0 && from < 4; from++ {
				if err := p.awaitMessage(from, i%50, uint64(i)); err != nil {
					return err
				}
			}
			if p.self != 0 {
				if err := p.send(0, fill(make([]byte, i%50), uint64(i)), nil); err != nil {
					return err
				}
				for range i * 7 % 11 {
					runtime.Gosched()
				}
			}
		}
		return nil
	})
}

// checkSleepPingPong: two peers that sleep whenever they wait always wake each other.
func checkSleepPingPong(t *testing.T, peers Peers) {
	const count = 3000
	w := newConnected(t, peers, 2)
	w.each(func(p *peer) error {
		for i := range count {
			if i%2 == p.self {
				if err := p.send(1-p.self, fill(make([]byte, 8), uint64(i)), nil); err != nil {
					return err
				}
			} else if err := p.awaitMessage(1-p.self, 8, uint64(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkSleepWindow: a sender may sleep after ErrAgain, and is woken when its peer has made room. It tries once more after Arm.
func checkSleepWindow(t *testing.T, peers Peers) {
	const count = 600
	w := newConnected(t, peers, 2)
	w.each(func(p *peer) error {
		size := p.caps.MaxSend * 2 / 3
		for i := range count {
			if p.self == 0 {
				if err := p.sendAsleep(1, fill(make([]byte, size), uint64(i))); err != nil {
					return err
				}
			} else if err := p.awaitMessage(0, size, uint64(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// sendAsleep is send for a peer that sleeps until there is room.
func (p *peer) sendAsleep(to int, b []byte) error {
	sent := false
	try := func() (bool, error) {
		err := p.eps[to].Send(nil, b)
		if sent = err == nil; err == fabric.ErrAgain {
			err = nil
		}
		return sent, err
	}
	for {
		if _, err := try(); sent || err != nil {
			return err
		}
		if _, err := p.tryProgress(); err != nil {
			return err
		}
		if err := p.sleep(try); sent || err != nil {
			return err
		}
	}
}

// checkSleepDown: a sleeping peer is woken by the event PeerDown.
func checkSleepDown(t *testing.T, peers Peers) {
	for _, whole := range []bool{true, false} {
		w := newConnected(t, peers, 2)
		w.each(func(p *peer) error {
			if p.self == 1 {
				for range 1000 {
					runtime.Gosched()
				}
				if whole {
					return p.Close()
				}
				return p.eps[0].Close()
			}
			ev, err := p.await(1)
			if err == nil && ev.Kind != fabric.PeerDown {
				err = fmt.Errorf("unexpected event %+v", ev)
			}
			return err
		})
	}
}
