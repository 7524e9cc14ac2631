package mem

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestLaneAgainstQueue: a lane returns messages in order, unchanged until release, while the ring wraps many times.
func TestLaneAgainstQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l lane
	var queue, borrowed [][]byte // what is in the lane, and what was received since the last release
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
			b, ok := l.get()
			if ok != (len(queue) > 0) || l.empty() != (len(queue) <= 1) {
				t.Fatalf("got a message: %v, of %d; empty: %v", ok, len(queue), l.empty())
			}
			if ok {
				views, borrowed, queue = append(views, b), append(borrowed, queue[0]), queue[1:]
			}
		case 4:
			for i := range views {
				if !bytes.Equal(views[i], borrowed[i]) {
					t.Fatalf("%d bytes have changed before release", len(borrowed[i]))
				}
			}
			views, borrowed = nil, nil
			l.release()
		}
	}
	if refused == 0 || l.readPos < 100*ringBytes {
		t.Errorf("%d refused, %d bytes in all: too little for a meaningful test", refused, l.readPos)
	}
}

// TestLaneLargest: an empty lane has room for the largest message at any position.
func TestLaneLargest(t *testing.T) {
	for at := 0; at < ringBytes; at += headBytes {
		var l lane
		for n := at; n > 0; { // moves on to at
			step := min(n, ringBytes/4)
			if !l.put(nil, make([]byte, step-headBytes)) {
				t.Fatal("no room on the way")
			}
			if _, ok := l.get(); !ok {
				t.Fatal("no message on the way")
			}
			l.release()
			n -= step
		}
		if !l.put(make([]byte, 1), make([]byte, maxSend-1)) {
			t.Fatalf("no room for the largest message at %d", at)
		}
		if b, ok := l.get(); !ok || len(b) != maxSend {
			t.Fatalf("got %d bytes, %v", len(b), ok)
		}
	}
}

// TestLaneReportsRoom: the release after a refused put reports it once.
func TestLaneReportsRoom(t *testing.T) {
	var l lane
	for l.put(nil, make([]byte, 1000)) {
	}
	if _, ok := l.get(); !ok {
		t.Fatal("no message")
	}
	if !l.release() {
		t.Error("release does not report the refused writer")
	}
	if l.release() {
		t.Error("release reports it twice")
	}
	if !l.put(nil, make([]byte, 900)) {
		t.Error("there is no room")
	}
}
