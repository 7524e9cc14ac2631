package fabrictest

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// Bench measures a transport: what a message costs its sender and receiver in one goroutine (Path), half a round
// trip between two (Latency), messages in one direction (Rate), and Reads where there are any (Read). Where there
// are fewer cores than the two peers need, only Path and Read say something about the transport.
func Bench(b *testing.B, peers Peers) {
	w := newConnected(b, peers, 2)
	sizes := []int{8, 1 << 10, w.peers[0].caps.MaxSend}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("Path/%d", size), func(b *testing.B) { benchPath(b, w, size) })
	}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("Latency/%d", size), func(b *testing.B) { benchLatency(b, w, size) })
	}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("Rate/%d", size), func(b *testing.B) { benchRate(b, w, size) })
	}
	if w.peers[0].caps.Read {
		for _, size := range []int{64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("Read/%d", size), func(b *testing.B) { benchRead(b, w, size) })
		}
	}
}

func benchPath(b *testing.B, w *world, size int) {
	header, payload := make([]byte, 8), make([]byte, size-8)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if err := cross(w.peers[0], w.peers[1], header, payload); err != nil {
			b.Fatal(err)
		}
	}
}

// push sends a message, polling while there is no room.
func (p *peer) push(to int, b []byte, stop *atomic.Bool) error {
	for spins := 1; ; spins++ {
		if err := p.ways[to].Send(b, nil); err != fabric.ErrAgain {
			return err
		}
		if _, err := p.Poll(nil); err != nil {
			return err
		}
		if err := pause(spins, stop); err != nil {
			return err
		}
	}
}

// pull takes as many messages as there are, at least one.
func (p *peer) pull(evs []fabric.Event, stop *atomic.Bool) (int, error) {
	for spins := 1; ; spins++ {
		if n, err := p.Poll(evs); n > 0 || err != nil {
			return n, err
		}
		if err := pause(spins, stop); err != nil {
			return 0, err
		}
	}
}

// pause lets others run from time to time.
func pause(spins int, stop *atomic.Bool) error {
	if spins%1000 != 0 {
		return nil
	}
	if stop.Load() {
		return errStopped
	}
	runtime.Gosched()
	return nil
}

func benchLatency(b *testing.B, w *world, size int) {
	n := b.N
	b.SetBytes(int64(size))
	b.ResetTimer()
	w.each(func(p *peer) error {
		msg, evs := make([]byte, size), make([]fabric.Event, 1)
		for i := range n {
			if i%2 == p.self {
				if err := p.push(1-p.self, msg, &w.stop); err != nil {
					return err
				}
			} else if _, err := p.pull(evs, &w.stop); err != nil {
				return err
			}
		}
		return nil
	})
}

func benchRate(b *testing.B, w *world, size int) {
	n := b.N
	b.SetBytes(int64(size))
	b.ResetTimer()
	w.each(func(p *peer) error {
		msg, evs := make([]byte, size), make([]fabric.Event, 64)
		for i := 0; i < n; {
			k, err := 1, error(nil)
			if p.self == 0 {
				err = p.push(1, msg, &w.stop)
			} else {
				k, err = p.pull(evs, &w.stop)
			}
			if err != nil {
				return err
			}
			i += k
		}
		return nil
	})
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msg/s")
}

func benchRead(b *testing.B, w *world, size int) {
	p := w.peers[0]
	near, err := p.expose(make([]byte, size))
	if err != nil {
		b.Fatal(err)
	}
	far, err := w.peers[1].expose(make([]byte, size))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		done, err := p.ways[1].Read(near.b, near.Region, far.at(0), 1)
		if err := p.ended(done, err); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Deregister(near.Region); err != nil {
		b.Fatal(err)
	}
	if err := w.peers[1].Deregister(far.Region); err != nil {
		b.Fatal(err)
	}
}
