package shm

import (
	"encoding/binary"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// overwrite stores random words in memory until stop is set, as a peer that misbehaves could at any time. It counts them.
func overwrite(mem []byte, seed uint64, stop *atomic.Bool, count *atomic.Int64) {
	rnd := mathrand.New(mathrand.NewPCG(seed, 0))
	words := []uint64{0, 1, ^uint64(0), 1 << 32, 1<<32 | 24, 1 << 33, 1<<34 | 1<<32 | 100, 1 << 63}
	for !stop.Load() {
		v := words[rnd.IntN(len(words))]
		if rnd.IntN(2) == 0 {
			v = rnd.Uint64() >> rnd.IntN(64)
		}
		binary.NativeEndian.PutUint64(mem[rnd.IntN(len(mem)/8)*8:], v)
		count.Add(1)
	}
}

// TestOverwritten: peers whose memory is overwritten while they read and write it return errors and events, and do not panic. A
// fault outside of their memory would end the test.
func TestOverwritten(t *testing.T) {
	for name, part := range map[string]func(ds []*Domain, e *endpoint) []byte{
		"control": func(ds []*Domain, _ *endpoint) []byte { return ds[0].controlMem },
		"ring":    func(_ []*Domain, e *endpoint) []byte { return e.mem[:ringBytes(smallSpace)] },
		"head":    func(_ []*Domain, e *endpoint) []byte { return e.mem[:64] },
	} {
		t.Run(name, func(t *testing.T) {
			checkLeftovers(t)
			for seed := range uint64(8) {
				overwrittenOnce(t, seed, part)
			}
		})
	}
}

func overwrittenOnce(t *testing.T, seed uint64, part func([]*Domain, *endpoint) []byte) {
	ds := openAll(t, node(2))
	there, back := connect(t, ds[0], 1), connect(t, ds[1], 0)
	if err := errors.Join(there.Send([]byte{1}, nil), back.Send([]byte{1}, nil)); err != nil {
		t.Fatal(err)
	}
	const steps, words = 10000, 100000 // each peer takes so many steps at least, while so many words are overwritten
	var stop atomic.Bool
	var overwritten atomic.Int64
	var overwriter, all sync.WaitGroup
	mem := part(ds, there.(*endpoint))
	overwriter.Go(func() { overwrite(mem, seed, &stop, &overwritten) })
	for i, e := range []fabric.Endpoint{there, back} {
		all.Go(func() {
			var evs [4]fabric.Event
			buf := make([]byte, maxPayload)
			for n := 0; n < steps || overwritten.Load() < words; n++ {
				// Errors may be returned or not.
				_ = e.Send(buf[:8], buf[:n*37%2000])
				_, _ = ds[i].Poll(evs[:])
				for _, ev := range evs {
					if len(ev.Data) > maxPayload+maxHeader {
						t.Errorf("a message of %d bytes", len(ev.Data))
					}
				}
				if n%16 == 0 {
					_, _, _ = ds[i].Arm()
					ds[i].Wake(1 - i)
				}
			}
		})
	}
	all.Wait()
	stop.Store(true)
	overwriter.Wait()
	if err := errors.Join(ds[0].Close(), ds[1].Close()); err != nil {
		t.Error(err)
	}
}
