package shm

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
)

// allocated returns how much memory of a domain's segment is allocated.
func allocated(t *testing.T, d *Domain) int {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(d.seg.FD(), &st); err != nil {
		t.Fatal(err)
	}
	return int(st.Blocks) * 512
}

// passOne sends one message of n bytes from a to b and receives it.
func passOne(t *testing.T, a fabric.Endpoint, b *Domain, n int) {
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
		t.Fatalf("%d bytes: %d messages, or wrong bytes", n, len(got))
	}
	if got := poll(t, b, evs[:]); len(got) != 0 {
		t.Fatalf("another %d messages", len(got))
	}
}

// TestRingGrowth: a ring takes memory as it is used: little for short messages, more for a long one, and much for many long ones,
// but the latter only to some peers.
func TestRingGrowth(t *testing.T) {
	const others = maxLargeRings + 2
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
		step("connected", ringBytes(smallSpace))
		for range 2000 {
			passOne(t, e, ds[to], 100)
		}
		passOne(t, e, ds[to], ring.MaxRecord(smallSpace)-3)
		step("short messages", 0)
		passOne(t, e, ds[to], most)
		step("a long message", ringBytes(mediumSpace)-ringBytes(smallSpace))
		if got := ds[to].inbounds.from[0].populated; got != mediumSpace {
			t.Errorf("peer %d has populated %d bytes of the ring", to, got)
		}
		for range largeAfter {
			passOne(t, e, ds[to], most)
		}
		if to <= maxLargeRings {
			step("many long messages", ringBytes(largeSpace)-ringBytes(mediumSpace))
		} else {
			step("many long messages", 0)
		}
		for n := 0; n < largeSpace; n += most { // once through the ring
			passOne(t, e, ds[to], most)
		}
		if got := ds[to].inbounds.from[0].populated; got != e.w.Capacity() {
			t.Errorf("peer %d has populated %d of %d bytes of the ring", to, got, e.w.Capacity())
		}
		for n := 0; n <= most; n += 997 {
			passOne(t, e, ds[to], n)
		}
		step("messages of all lengths", 0)
		if err := e.Send(make([]byte, 4), make([]byte, most)); err == nil || errors.Is(err, fabric.ErrAgain) {
			t.Errorf("peer %d: one byte more than the largest message: %v", to, err)
		}
	}
}

// TestRing: a ring grows to the largest space that the sender allows, and not further.
func TestRing(t *testing.T) {
	for setting, want := range map[int]int{0: largeSpace, mediumSpace: mediumSpace, 1<<20 - 1: 512 << 10, 1 << 20: 1 << 20} {
		tr := node(2)
		tr.Ring = setting
		ds := openAll(t, tr)
		e := connect(t, ds[0], 1).(*endpoint)
		before := allocated(t, ds[0]) - ringBytes(smallSpace)
		for range largeAfter + 2*want/maxPayload { // more than once through the ring
			passOne(t, e, ds[1], maxPayload)
		}
		if n := allocated(t, ds[0]) - before; e.w.Capacity() != want || n != ringBytes(want) {
			t.Errorf("with Ring %d the ring has %d bytes, and %d of memory, want %d", setting, e.w.Capacity(), n, want)
		}
		if got := ds[1].inbounds.from[0].populated; got != want {
			t.Errorf("with Ring %d the reader has populated %d bytes, want %d", setting, got, want)
		}
	}
}

// TestStores: messages arrive by each kind of stores. Where peers share cores the times of copies say nothing, so the stores
// are not chosen by them.
func TestStores(t *testing.T) {
	for _, c := range []struct {
		shared    bool
		set, want Stores
	}{{false, Fastest, Fastest}, {false, Cached, Cached}, {false, NonTemporal, NonTemporal}, {true, Fastest, Cached},
		{true, NonTemporal, NonTemporal}} {
		tr := node(2)
		tr.SharedCores, tr.Stores = c.shared, c.set
		ds := openAll(t, tr)
		if ds[0].stores != c.want {
			t.Errorf("%+v: %v", c, ds[0].stores)
		}
		e := connect(t, ds[0], 1).(*endpoint)
		if got := Stores(e.w.Stores()); got != c.want {
			t.Errorf("%+v: the writer has %v", c, got)
		}
		for n := range 300 {
			passOne(t, e, ds[1], n*100)
		}
	}
}

// TestSettingsInvalid: Open names a setting that is out of bounds.
func TestSettingsInvalid(t *testing.T) {
	for name, set := range map[string]func(*Transport){
		"Stream is -1": func(tr *Transport) { tr.Stream = -1 }, "Ring is 131071": func(tr *Transport) { tr.Ring = mediumSpace - 1 },
		"Ring is 2097153": func(tr *Transport) { tr.Ring = largeSpace + 1 }, "Stores is 3": func(tr *Transport) { tr.Stores = 3 },
	} {
		tr := node(1)
		set(tr)
		if _, err := tr.Open(t.Context(), &fabric.Config{Size: 1}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStream: times are measured unless the peers share cores or a setting decides.
func TestStream(t *testing.T) {
	for _, c := range []struct {
		shared            bool
		setting           int
		stream, maxStream int
	}{{false, 0, FirstStream, MaxStream}, {true, 0, MaxStream, 0}, {false, 5000, 5000, 0}, {true, 5000, 5000, 0}} {
		tr := node(2)
		tr.SharedCores, tr.Stream = c.shared, c.setting
		if caps := openAll(t, tr)[0].Caps(); caps.Stream != c.stream || caps.MaxStream != c.maxStream {
			t.Errorf("%+v: %+v", c, caps)
		}
	}
}

// TestRingGrowthNoMemory: if there is no memory for long messages, they are rejected with the reason, and others are still sent.
// The large ring is not tried again and again.
func TestRingGrowthNoMemory(t *testing.T) {
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
	for range 2 * largeAfter {
		if err := e.Send(nil, make([]byte, maxPayload)); err == nil || errors.Is(err, fabric.ErrAgain) {
			t.Fatalf("a long message without memory for it: %v", err)
		}
		passOne(t, e, ds[1], ring.MaxRecord(smallSpace)-3) // long enough to ask for more room
	}
	if e.w.Capacity() != smallSpace || ds[0].largeRings != maxLargeRings {
		t.Errorf("the ring has %d bytes, large rings: %d", e.w.Capacity(), ds[0].largeRings)
	}
}
