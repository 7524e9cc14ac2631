package shm

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
)

// allocated is the memory of the segment behind a domain.
func allocated(t *testing.T, d *Domain) int {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(d.seg.FD(), &st); err != nil {
		t.Fatal(err)
	}
	return int(st.Blocks) * 512
}

// pass sends one message of n bytes from a to b and takes it.
func pass(t *testing.T, a fabric.Endpoint, b *Domain, n int) {
	t.Helper()
	payload := make([]byte, n)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	if err := a.Send([]byte{1, 2, 3}, payload); err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	var evs [4]fabric.Event
	got := poll(t, b, evs[:])
	if len(got) != 1 || string(got[0].Data) != string(append([]byte{1, 2, 3}, payload...)) {
		t.Fatalf("%d bytes: %d messages, or other bytes", n, len(got))
	}
	if got := poll(t, b, evs[:]); len(got) != 0 {
		t.Fatalf("another %d messages", len(got))
	}
}

// TestWide: a ring takes memory as it is used: little for short messages, more for a long one, and much for many, but not to more
// than some peers.
func TestWide(t *testing.T) {
	const others = wideRings + 2
	ds := openAll(t, node(1+others))
	before := allocated(t, ds[0])
	most := maxPayload + maxHeader - 3
	for to := 1; to <= others; to++ {
		e := connect(t, ds[0], to).(*endpoint)
		step := func(what string, want int) {
			t.Helper()
			now := allocated(t, ds[0])
			if now-before != want {
				t.Fatalf("peer %d, %s: the segment grew by %d bytes, want %d", to, what, now-before, want)
			}
			before = now
		}
		step("connected", ringBytes(shortSpace))
		for range 2000 {
			pass(t, e, ds[to], 100)
		}
		pass(t, e, ds[to], ring.MaxRecord(shortSpace)-3)
		step("short messages", 0)
		if wide := e.Stream() == StreamNear; wide != (to <= wideRings) && !e.w.Far() {
			t.Errorf("peer %d: Stream is %d", to, e.Stream())
		}
		pass(t, e, ds[to], most)
		step("a long message", ringBytes(longSpace)-ringBytes(shortSpace))
		for range wideAfter {
			pass(t, e, ds[to], most)
		}
		if to <= wideRings {
			step("many long messages", ringBytes(wideSpace)-ringBytes(longSpace))
		} else {
			step("many long messages", 0)
		}
		for n := 0; n <= most; n += 997 {
			pass(t, e, ds[to], n)
		}
		step("messages of all lengths", 0)
		if err := e.Send(make([]byte, 4), make([]byte, most)); err == nil || errors.Is(err, fabric.ErrAgain) {
			t.Errorf("peer %d: one byte more than the largest message: %v", to, err)
		}
	}
}

// TestWideNoMemory: where there is no memory for long messages they are refused with the reason, and others still go. More is not
// asked for again and again.
func TestWideNoMemory(t *testing.T) {
	ds := openAll(t, node(2))
	e := connect(t, ds[0], 1).(*endpoint)
	full, err := ring.Create(4096)
	if err != nil {
		t.Fatal(err)
	}
	whole := ds[0].seg
	ds[0].seg = full // nothing can be allocated in it
	defer func() {
		ds[0].seg = whole
		if err := full.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 * wideAfter {
		if err := e.Send(nil, make([]byte, maxPayload)); err == nil || errors.Is(err, fabric.ErrAgain) {
			t.Fatalf("a long message without memory for it: %v", err)
		}
		pass(t, e, ds[1], ring.MaxRecord(shortSpace)-3) // long enough to ask for more room
	}
	if e.w.Room() != shortSpace || e.Stream() != StreamFar || ds[0].wide != wideRings {
		t.Errorf("the ring has room for %d bytes, Stream is %d, wide rings: %d", e.w.Room(), e.Stream(), ds[0].wide)
	}
}
