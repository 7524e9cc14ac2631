package proto

import (
	"errors"
	"testing"
)

// TestParrivedFailed: no partition of a receive that has failed has arrived, also after the receive
// has completed.
func TestParrivedFailed(t *testing.T) {
	es := open(t, 2, nil, nil)
	ignore := func(error) {}
	h := es[0].Schedules().PrecvInit(from(1, 1), Partitions{Buf: make([]byte, 64), Count: 4, Failed: ignore})
	if err := es[0].Start(h); err != nil {
		t.Fatal(err)
	}
	if _, err := es[1].Schedules().PsendInit(to(1, 0, 1), Partitions{Buf: make([]byte, 32), Count: 4, Failed: ignore}); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 4; {
		ok, err := es[0].Schedules().Parrived(h, i)
		if ok || err != nil && !errors.Is(err, ErrTruncate) {
			t.Fatalf("partition %d: %v, %v", i, ok, err)
		}
		if err != nil {
			i++
		}
	}
	if _, err := es[0].Requests().Wait(h); !errors.Is(err, ErrTruncate) {
		t.Error(err)
	}
	if ok, err := es[0].Schedules().Parrived(h, 0); !ok || err != nil {
		t.Errorf("of a receive that is not active: %v, %v", ok, err)
	}
}

// FuzzSetup gives a partitioned receive any setup: it is an error, or all messages lie within the
// buffer.
func FuzzSetup(f *testing.F) {
	f.Add([]byte{4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 64}, 2)
	f.Add([]byte{0, 0, 1, 0, 255, 127}, 1)
	f.Fuzz(func(t *testing.T, setup []byte, parts int) {
		p := partitioned{buf: make([]byte, 64), parts: 1 + (parts&0xff)%64, kind: 3}
		for len(p.buf)%p.parts != 0 {
			p.parts++
		}
		copy(p.setup[:], setup)
		if p.Do(1) != nil {
			return
		}
		end := 0
		for i := 2; ; i++ {
			s, ok := p.Step(i)
			if !ok {
				break
			}
			end += len(s.Buf)
			if p.has(0) && i-2 < p.messages/p.parts {
				t.Fatalf("partition 0 of %d has arrived before message %d of %d", p.parts, i-2, p.messages)
			}
			p.arrived(s.Rank, s.Tag)
		}
		for i := range p.parts {
			if !p.has(i) {
				t.Fatalf("partition %d of %d has not arrived with %d messages", i, p.parts, p.messages)
			}
		}
		if end != len(p.buf) {
			t.Fatalf("%d messages have %d bytes", p.messages, end)
		}
	})
}
