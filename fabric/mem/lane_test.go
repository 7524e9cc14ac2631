package mem

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// A lane is a queue: what is put comes out, in order, unchanged until release, over many rounds of the ring.
func TestLaneAgainstQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l lane
	var queue, lent [][]byte // what is in the lane, and what was taken since the last release
	var views [][]byte
	refused := 0
	for range 50_000 {
		switch r.IntN(5) {
		case 0, 1, 2:
			b := make([]byte, r.IntN(1+r.IntN(maxSend+1)))
			for i := range b {
				b[i] = byte(len(b) + i + refused)
			}
			split := r.IntN(len(b) + 1)
			if !l.put(b[:split], b[split:]) {
				refused++
				break
			}
			queue = append(queue, b)
		case 3:
			b, ok := l.take()
			if ok != (len(queue) > 0) || l.empty() != (len(queue) <= 1) {
				t.Fatalf("took something: %v, of %d; empty: %v", ok, len(queue), l.empty())
			}
			if ok {
				views, lent, queue = append(views, b), append(lent, queue[0]), queue[1:]
			}
		case 4:
			for i := range views {
				if !bytes.Equal(views[i], lent[i]) {
					t.Fatalf("lent %d bytes that have changed", len(lent[i]))
				}
			}
			views, lent = nil, nil
			l.release()
		}
	}
	if refused == 0 || l.at < 100*ringBytes {
		t.Errorf("%d refused, %d bytes in all: too little to mean something", refused, l.at)
	}
}

// In an empty lane there is room for the largest message, wherever it stands.
func TestLaneLargest(t *testing.T) {
	for at := 0; at < ringBytes; at += headBytes {
		var l lane
		for n := at; n > 0; { // moves on to at
			step := min(n, ringBytes/4)
			if !l.put(nil, make([]byte, step-headBytes)) {
				t.Fatal("no room on the way")
			}
			if _, ok := l.take(); !ok {
				t.Fatal("nothing there on the way")
			}
			l.release()
			n -= step
		}
		if !l.put(make([]byte, 1), make([]byte, maxSend-1)) {
			t.Fatalf("no room for the largest message at %d", at)
		}
		if b, ok := l.take(); !ok || len(b) != maxSend {
			t.Fatalf("took %d bytes, %v", len(b), ok)
		}
	}
}

// A writer that was refused is told of room once, also if the room came while it was being refused.
func TestLaneTellsOfRoom(t *testing.T) {
	var l lane
	for l.put(nil, make([]byte, 1000)) {
	}
	if _, ok := l.take(); !ok {
		t.Fatal("nothing there")
	}
	if !l.release() {
		t.Error("the refused writer does not hear of room")
	}
	if l.release() {
		t.Error("it hears twice")
	}
	if !l.put(nil, make([]byte, 900)) {
		t.Error("there is no room")
	}
}
