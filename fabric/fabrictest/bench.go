package fabrictest

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// Bench measures a transport: the cost of a message for sender and receiver in one goroutine (Path), half a round trip between
// two goroutines (Latency), messages in one direction (Rate), and Reads if they are supported (Read, ReadTo). On fewer cores than
// the two peers need, only Path and Read are meaningful.
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
		if s, ok := w.peers[0].eps[1].(fabric.Scatterer); ok {
			for _, length := range []int{1 << 10, 4 << 10, 16 << 10} {
				b.Run(fmt.Sprintf("ReadTo/%d", length), func(b *testing.B) { benchReadTo(b, w, s, length) })
			}
		}
	}
}

func benchPath(b *testing.B, w *world, size int) {
	header, payload := make([]byte, 8), make([]byte, size-8)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if err := deliver(w.peers[0], w.peers[1], header, payload); err != nil {
			b.Fatal(err)
		}
	}
}

// spinSend sends a message and polls while the window is full.
func (p *peer) spinSend(to int, b []byte, stop *atomic.Bool) error {
	for spins := 1; ; spins++ {
		if err := p.eps[to].Send(b, nil); err != fabric.ErrAgain {
			return err
		}
		if _, err := p.Poll(nil); err != nil {
			return err
		}
		if err := yieldSometimes(spins, stop); err != nil {
			return err
		}
	}
}

// spinPoll polls until at least one event has arrived.
func (p *peer) spinPoll(evs []fabric.Event, stop *atomic.Bool) (int, error) {
	for spins := 1; ; spins++ {
		if n, err := p.Poll(evs); n > 0 || err != nil {
			return n, err
		}
		if err := yieldSometimes(spins, stop); err != nil {
			return 0, err
		}
	}
}

// yieldSometimes yields every 1000 spins.
func yieldSometimes(spins int, stop *atomic.Bool) error {
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
				if err := p.spinSend(1-p.self, msg, &w.failed); err != nil {
					return err
				}
			} else if _, err := p.spinPoll(evs, &w.failed); err != nil {
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
				err = p.spinSend(1, msg, &w.failed)
			} else {
				k, err = p.spinPoll(evs, &w.failed)
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
	near, err := p.register(make([]byte, size))
	if err != nil {
		b.Fatal(err)
	}
	far, err := w.peers[1].register(make([]byte, size))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		done, err := p.eps[1].Read(near.b, near.Region, far.at(0), 1)
		if err := p.awaitDone(done, err); err != nil {
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

// benchReadTo measures reads of 256 KiB to blocks of one length, in comparison with a Read to contiguous memory and a copy.
func benchReadTo(b *testing.B, w *world, s fabric.Scatterer, length int) {
	const size = 256 << 10
	p := w.peers[0]
	dst, whole := newScattered(size, int64(length), 1), make([]byte, size)
	to, err1 := p.register(dst.mem)
	near, err2 := p.register(whole)
	far, err3 := w.peers[1].register(make([]byte, size))
	if err := errors.Join(err1, err2, err3); err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"Parts": func() error { return p.awaitDone(s.ReadTo(dst, 0, size, to.Region, far.at(0), 1)) },
		"Copy": func() error {
			err := p.awaitDone(p.eps[1].Read(whole, near.Region, far.at(0), 1))
			dst.Unpack(whole, 0)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if err := read(); errors.Is(err, fabric.ErrNotSupported) {
					b.Skip(err)
				} else if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	err := errors.Join(p.Deregister(to.Region), p.Deregister(near.Region), w.peers[1].Deregister(far.Region))
	if err != nil {
		b.Fatal(err)
	}
}
