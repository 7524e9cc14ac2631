package tcpflow

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// established is the state of a socket with a connection: TCP_ESTABLISHED.
const established = 1

// link is a simulated connection: what the kernel would tell about it at any time.
type link struct {
	Sample
	since time.Time // when something has been queued; zero: nothing is
}

// newLink returns a connection on which nothing is queued.
func newLink() *link {
	l := &link{}
	l.State, l.Snd_mss, l.Snd_wnd, l.Pmtu, l.Last_data_sent = established, 8948, 60000, 9000, 5000
	return l
}

// at returns the sample at that time.
func (l *link) at(now time.Time) *Sample {
	s := l.Sample
	if !l.since.IsZero() {
		s.Busy_time = uint64(now.Sub(l.since) / time.Microsecond)
	}
	return &s
}

// lose queues bytes at that time, which the kernel sends again and again.
func (l *link) lose(bytes int, now time.Time) {
	l.Queued, l.Unacked, l.Retransmits, l.Last_data_sent = bytes, 1, 3, 100
	if l.since.IsZero() {
		l.since = now
	}
}

// keep queues bytes at that time, which a device of this host drops, so that they do not count as sent.
func (l *link) keep(bytes int, now time.Time) {
	l.lose(bytes, now)
	l.Unacked, l.Retransmits = 0, 0
}

// step is a second of a simulated flow.
const step = time.Second

// TestStalled: a flow is stalled for as long as nothing has been acknowledged that was sent, however often the host answers.
func TestStalled(t *testing.T) {
	start := time.Unix(1000, 0)
	var f Flow
	l := newLink()
	f.Begin(l.at(start), start)
	now := start.Add(time.Hour)
	if d := f.Observe(l.at(now), now, 0); d != 0 {
		t.Errorf("an idle flow is stalled for %v", d)
	}
	sent := now.Add(step / 2) // between two samples
	l.lose(100_000, sent)
	l.Retransmits = 1
	now = now.Add(step)
	if d := f.Observe(l.at(now), now, 0); d != 0 {
		t.Errorf("after one retransmission it is stalled for %v", d)
	}
	l.Retransmits = 3
	for range 3 {
		now = now.Add(step)
		l.Last_ack_recv = 0 // short packets of the peer acknowledge nothing new
		if d := f.Observe(l.at(now), now, 0); d != now.Sub(sent) {
			t.Errorf("stalled for %v instead of %v", d, now.Sub(sent))
		}
	}
	if err := f.Cause(); err == nil || !strings.Contains(err.Error(), "8948 bytes") || !strings.Contains(err.Error(), "(9000)") {
		t.Error(err)
	}
	f.Skip(step, now) // the process was stopped
	if d := f.Observe(l.at(now), now, 0); d != now.Sub(sent)-step {
		t.Errorf("without the time in which the process was stopped: %v", d)
	}
	l.Bytes_acked, l.Retransmits = 1, 0 // slow, but moving
	now = now.Add(step)
	if d := f.Observe(l.at(now), now, 0); d != 0 || f.Cause() != nil || f.Since() != now {
		t.Errorf("after an acknowledgement: %v, %v", d, f.Cause())
	}
}

// TestNotStalled: what cannot arrive because the peer's process does not read is not lost.
func TestNotStalled(t *testing.T) {
	start := time.Unix(1000, 0)
	for name, change := range map[string]func(l *link){
		"the window is full":                   func(l *link) { l.Unacked, l.Snd_wnd, l.Probes = 0, 0, 9 },
		"the window was closed over packets":   func(l *link) { l.Snd_wnd = 0 },
		"the window is less than a packet":     func(l *link) { l.Unacked, l.Retransmits, l.Snd_wnd = 0, 0, 300 },
		"an old kernel does not tell":          func(l *link) { l.Snd_wnd, l.Delivered, l.Bytes_acked = 0, 0, 0 },
		"acknowledged as slowly as it is sent": func(l *link) { l.Bytes_acked += 10 },
		"all of it has been acknowledged":      func(l *link) { l.Queued, l.Unacked = 0, 0 },
	} {
		var f Flow
		l := newLink()
		f.Begin(l.at(start), start)
		now := start
		l.lose(5000, now)
		for range 100 {
			now = now.Add(step)
			change(l)
			if d := f.Observe(l.at(now), now, 0); d >= 2*step {
				t.Fatalf("%s: stalled for %v", name, d)
			}
		}
	}
}

// TestPause: what a flow did while it was not observed does not count, over a connection that was made again either.
func TestPause(t *testing.T) {
	now := time.Unix(1000, 0)
	var f Flow
	l := newLink()
	f.Begin(l.at(now), now)
	f.Begin(l.at(now), now)
	now = now.Add(time.Hour)
	f.Pause(now)
	l.lose(100_000, now)
	now = now.Add(step)
	if d := f.Observe(l.at(now), now, 0); d != step {
		t.Errorf("stalled for %v instead of %v", d, step)
	}
}

// TestSkip: a time in which the process was stopped does not count. What was seen since then is not moved into the future, and a
// connection that was made again remains one.
func TestSkip(t *testing.T) {
	now := time.Unix(1000, 0)
	var f Flow
	if f.Skip(step, now); f != (Flow{}) {
		t.Errorf("a peer without a connection: %+v", f)
	}
	l := newLink()
	f.Begin(l.at(now), now)
	f.Skip(step, now) // it was made after that
	l.lose(100_000, now)
	now = now.Add(step)
	if d := f.Observe(l.at(now), now, step); d != step {
		t.Errorf("a connection that was made afterwards is stalled for %v instead of %v", d, step)
	}
	now = now.Add(step)
	l = newLink()
	f.Begin(l.at(now), now)
	l.lose(100_000, now)
	now = now.Add(5 * step)
	f.Skip(4*step, now)
	if d := f.Observe(l.at(now), now, step); d != 3*step || !f.Again() || f.Age(now) != step {
		t.Errorf("stalled for %v instead of %v, made again: %v, age %v", d, 3*step, f.Again(), f.Age(now))
	}
	f.Skip(4*step, now)
	if d := f.Observe(l.at(now), now, 0); d != 0 || !f.Again() || f.Since() != now {
		t.Errorf("stalled for %v, made again: %v", d, f.Again())
	}
}

// TestOutOfOrder: where many packets are lost, a flow is not stalled while some arrive behind those that do not.
func TestOutOfOrder(t *testing.T) {
	const quiet = 3 * step
	now := time.Unix(1000, 0)
	var f Flow
	l := newLink()
	f.Begin(l.at(now), now)
	l.lose(100_000, now)
	for range 20 {
		now = now.Add(step)
		l.Delivered++
		if d := f.Observe(l.at(now), now, quiet); d != 0 {
			t.Fatalf("stalled for %v", d)
		}
	}
	began := now
	for k := range 5 { // nothing arrives any more
		now = now.Add(step)
		want := now.Sub(began)
		if k+1 < 3 {
			want = 0
		}
		if d := f.Observe(l.at(now), now, quiet); d != want {
			t.Errorf("after %d seconds: stalled for %v instead of %v", k+1, d, want)
		}
	}
	l = newLink()
	f.Begin(l.at(now), now)
	l.lose(100_000, now)
	l.Delivered = 2 // short ones, behind long ones that do not arrive
	now = now.Add(step)
	if d := f.Observe(l.at(now), now, quiet); d != 0 {
		t.Errorf("over another connection: stalled for %v", d)
	}
	now = now.Add(quiet)
	if d := f.Observe(l.at(now), now, quiet); d != now.Sub(began) || !f.Again() {
		t.Errorf("over another connection: stalled for %v instead of %v", d, now.Sub(began))
	}
}

// TestMadeAgain: to make a connection again is not progress, and neither are short frames over it. Long ones are, and so is an
// end of all that had to be sent.
func TestMadeAgain(t *testing.T) {
	start := time.Unix(1000, 0)
	begin := func() (f Flow, now time.Time) {
		l := newLink()
		f.Begin(l.at(start), start)
		l.lose(100_000, start)
		now = start.Add(5 * step)
		if d := f.Observe(l.at(now), now, 0); d != 5*step || f.Again() {
			t.Fatalf("stalled for %v, made again: %v", d, f.Again())
		}
		return f, now
	}
	for name, c := range map[string]struct {
		change func(l *link, now time.Time)
		want   time.Duration // after another five seconds
	}{
		"nothing arrives":           {func(l *link, now time.Time) { l.lose(100_000, now) }, 10 * step},
		"nothing can be sent":       {func(l *link, now time.Time) { l.keep(100_000, now) }, 10 * step},
		"the handshake arrives":     {func(l *link, now time.Time) { l.lose(100_000, now); l.Bytes_acked = 200 }, 10 * step},
		"short frames arrive":       {func(l *link, now time.Time) { l.lose(100_000, now); l.Bytes_acked = 700 }, 10 * step},
		"a long frame arrives":      {func(l *link, now time.Time) { l.lose(100_000, now); l.Bytes_acked = 10_000 }, 0},
		"short frames, and no more": {func(l *link, _ time.Time) { l.Queued, l.Bytes_acked = 0, 700 }, 0},
	} {
		f, now := begin()
		l := newLink()
		l.Queued = 200 // of the handshake
		f.Begin(l.at(now), now)
		l.Queued = 0
		now = now.Add(step)
		c.change(l, now)
		if d := f.Observe(l.at(now), now, 0); d != 0 && d != 6*step {
			t.Errorf("%s: stalled for %v after a second", name, d)
		}
		now = now.Add(4 * step)
		if d := f.Observe(l.at(now), now, 0); c.want != 0 && d != c.want || c.want == 0 && d >= 5*step {
			t.Errorf("%s: stalled for %v instead of %v", name, d, c.want)
		}
		if f.Again() != (c.want != 0) {
			t.Errorf("%s: made again: %v", name, f.Again())
		}
	}
}

// TestShortTraffic: while short messages are exchanged over a connection that was made again, it is not stalled, although some of
// them are on their way at the time of each sample.
func TestShortTraffic(t *testing.T) {
	now := time.Unix(1000, 0)
	var f Flow
	l := newLink()
	f.Begin(l.at(now), now)
	f.Begin(l.at(now), now)
	for range 20 {
		now = now.Add(step)
		l.Bytes_acked += uint64(l.Queued)
		l.lose(100, now)
		l.Retransmits = 0
		f.Observe(l.at(now), now, 0)
	}
	for range 2 {
		l.Bytes_acked += uint64(l.Queued) // an end, and a pause
		l.Queued, l.Last_data_sent = 0, 100
		now = now.Add(step)
		f.Observe(l.at(now), now, 0)
		last := f.Since()
		l.lose(100, now)
		now = now.Add(step)
		if d := f.Observe(l.at(now), now, 0); d != now.Sub(last) || d != step {
			t.Errorf("stalled for %v instead of %v", d, step)
		}
	}
}

// TestInVain: a connection that ends is in vain if nothing has arrived over it in either direction.
func TestInVain(t *testing.T) {
	now := time.Unix(1000, 0)
	var f Flow
	f.Begin(newLink().at(now), now)
	ended := newLink()
	ended.State = tcpClose
	if f.Observe(ended.at(now), now, 0); f.InVain() {
		t.Error("the first connection is in vain")
	}
	for _, c := range []struct {
		acked, received uint64
		want            bool
	}{{0, 0, true}, {0, 300, true}, {1, 0, false}, {0, 9000, false}} {
		f.Begin(newLink().at(now), now)
		ended.Bytes_acked, ended.Bytes_received = c.acked, c.received
		if d := f.Observe(ended.at(now), now, 0); d != 0 || f.InVain() != c.want {
			t.Errorf("%+v: in vain: %v, stalled for %v", c, f.InVain(), d)
		}
	}
}

// TestRead: the kernel's figures are those of the connection, also after its end.
func TestRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := func() *Sample {
		s, err := Read(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := read(); s.State != established || s.Bytes_acked+uint64(s.Queued) < 1000 || s.Stalls(time.Hour) {
		t.Errorf("%+v", s)
	}
	if err := peer.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	peer.Close() // resets it
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Fatal("the connection was not reset")
	}
	if s := read(); s.State != tcpClose || s.Queued != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := Read(-1); !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
}

// TestReadUnknown: a kernel that does not tell how many bytes wait is not an error, and nothing counts as stalled. The kernel
// refuses to tell it of a socket that listens.
func TestReadUnknown(t *testing.T) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s, err := Read(int(f.Fd())); err != nil || s.Stalls(time.Hour) {
		t.Errorf("%+v, %v", s, err)
	}
}
