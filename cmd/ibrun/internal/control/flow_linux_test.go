package control

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/tcpflow"
)

// TestRelinkedInSilence: that another link was made is not a sign of life. The other side is lost at the end of the heartbeat
// after it was heard last, or half of one after the first link that was made since, and the error says that long packets may be
// lost.
func TestRelinkedInSilence(t *testing.T) {
	const heartbeat = time.Hour
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		isCoordinator bool
		relinked      time.Duration // after the other side was heard; 0: never
		want          time.Duration
	}{
		{true, 0, heartbeat},
		{false, 0, heartbeat / 2},
		{true, heartbeat / 4, heartbeat},
		{true, heartbeat * 3 / 4, heartbeat * 5 / 4},
		{false, heartbeat / 2, heartbeat},
		{false, heartbeat * 3 / 4, heartbeat * 5 / 4},
	} {
		conn := &Conn{isCoordinator: c.isCoordinator, heartbeat: heartbeat, times: times{heard: start}}
		if c.relinked > 0 {
			conn.times.relinked = start.Add(c.relinked)
		}
		if got := conn.readDeadline(&link{}).Sub(start); got != c.want {
			t.Errorf("%+v: the deadline is %v after the other side was heard", c, got)
		}
		if err := conn.silence(heartbeat); !errors.Is(err, ErrSilent) || strings.Contains(err.Error(), "MTU") != (c.relinked > 0) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestUnreached: if nothing that is written arrives, a node makes another link after half of the heartbeat. If nothing arrives
// over that one either, the connection ends after the heartbeat, on both sides, and the error says why.
func TestUnreached(t *testing.T) {
	const heartbeat = time.Hour
	start := time.Unix(1000, 0)
	lost := &tcpflow.Sample{Queued: 5000, TCPInfo: unix.TCPInfo{State: 1, Unacked: 1, Retransmits: 3, Snd_wnd: 60_000, Snd_mss: 8948,
		Pmtu: 9000, Busy_time: 1e12}}
	for _, isCoordinator := range []bool{true, false} {
		c := &Conn{isCoordinator: isCoordinator, heartbeat: heartbeat, lost: make(chan struct{}), onEnd: func() {}}
		c.changed.L = &c.mu
		judge := func(after time.Duration) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			now := start.Add(after)
			return c.judge(c.flow.tcp.Observe(lost, now, heartbeat/4), now)
		}
		c.flow.tcp.Begin(&tcpflow.Sample{}, start)
		if err := judge(heartbeat/2 - 1); err != nil {
			t.Errorf("node 0: %v: too early: %v", isCoordinator, err)
		}
		if err := judge(heartbeat / 2); (err == errStalled) == isCoordinator {
			t.Errorf("node 0: %v: after half of the heartbeat: %v", isCoordinator, err)
		}
		c.flow.tcp.Begin(&tcpflow.Sample{}, start.Add(heartbeat/2))
		if err := judge(heartbeat - 1); err != nil || c.err != nil {
			t.Errorf("node 0: %v: the new link: %v, %v", isCoordinator, err, c.err)
		}
		err := judge(heartbeat)
		if err != nil || !errors.Is(c.err, errUnreached) || !strings.Contains(c.err.Error(), "MTU") || c.LostSince() != start {
			t.Errorf("node 0: %v: %v, %v, since %v", isCoordinator, err, c.err, c.LostSince())
		}
	}
}

// TestGone: a side that has ended the connection has died or does not know the session, unless this side knows that long packets
// are lost: nothing arrives over a second link, or nothing but its beginning was heard over one.
func TestGone(t *testing.T) {
	const heartbeat = time.Minute
	start := time.Unix(1000, 0)
	lost := &tcpflow.Sample{Queued: 5000, TCPInfo: unix.TCPInfo{State: 1, Unacked: 1, Retransmits: 3, Snd_wnd: 60_000, Snd_mss: 8948,
		Pmtu: 9000, Busy_time: 1e12}}
	for _, c := range []struct {
		stalls          bool
		links           int
		relinked, heard time.Duration // since start; relinked 0: never
		now             time.Duration
		want            error // ErrDied: what was found
	}{
		{false, 1, 0, heartbeat, heartbeat, ErrDied},
		{false, 1, 0, 0, heartbeat, ErrDied}, // stopped, and killed then
		{true, 1, 0, heartbeat, heartbeat, ErrDied},
		{true, 2, heartbeat / 2, heartbeat, heartbeat, errUnreached},
		{true, 2, heartbeat / 2, 0, heartbeat, errUnreached},
		{false, 2, heartbeat / 2, 0, heartbeat, ErrSilent},
		{false, 2, heartbeat / 2, heartbeat/2 + heartbeatInterval/2, heartbeat, ErrSilent},
		{false, 2, heartbeat / 2, heartbeat/2 + heartbeatInterval/2, heartbeat/2 + 2*heartbeatInterval, ErrDied}, // killed soon
		{false, 2, heartbeat / 2, heartbeat/2 + 2*heartbeatInterval, heartbeat, ErrDied},
		{false, 2, heartbeat / 2, heartbeat, heartbeat, ErrDied},
	} {
		conn := &Conn{heartbeat: heartbeat, times: times{heard: start.Add(c.heard)}}
		if c.relinked > 0 {
			conn.times.relinked = start.Add(c.relinked)
		}
		for range c.links {
			conn.flow.tcp.Begin(&tcpflow.Sample{}, start)
			if c.stalls {
				conn.flow.tcp.Observe(lost, start.Add(heartbeat/2), 0)
			}
		}
		err := conn.gone(ErrDied, start.Add(c.now))
		if !errors.Is(err, c.want) || strings.Contains(err.Error(), "MTU") != (c.want != ErrDied) {
			t.Errorf("%+v: %v", c, err)
		}
		if c.want == ErrSilent && conn.times.lostSince != conn.times.heard {
			t.Errorf("%+v: lost since %v, heard at %v", c, conn.times.lostSince, conn.times.heard)
		}
	}
}

// TestSuspendedFlow: the time in which a side is suspended does not count as one in which nothing arrives.
func TestSuspendedFlow(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, s := range []suspension{{here: true}, {there: true}} {
		c := &Conn{suspension: s, heartbeat: time.Minute}
		c.link = &link{}
		c.flow.tcp.Begin(&tcpflow.Sample{}, now)
		later := now.Add(time.Hour)
		if c.checkFlow(c.link, later); c.flow.tcp.Since() != later {
			t.Errorf("%v, %v: something is expected since %v", c.suspension.here, c.suspension.there, c.flow.tcp.Since())
		}
	}
}

// unmeasured is a connection of whose bytes the kernel does not tell how many have arrived, as if it had no SIOCOUTQ.
type unmeasured struct {
	net.Conn
	listening *net.TCPConn // SIOCOUTQ fails for a socket that listens
}

func (u unmeasured) NetConn() net.Conn { return u.listening }

// newUnmeasured returns a connection that exchanges bytes with the other end of a pipe.
func newUnmeasured(t *testing.T, end net.Conn) net.Conn {
	t.Helper()
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
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		end.Close()
	})
	return unmeasured{end, c.(*net.TCPConn)}
}

// TestUnmeasured: a link is used also if the kernel does not tell what arrives over it.
func TestUnmeasured(t *testing.T) {
	left, right := net.Pipe()
	var sides [2]*Conn
	for i, end := range []net.Conn{left, right} {
		l, err := newLink(&greeting{conn: newUnmeasured(t, end), transcript: testSecret(1).Transcript([]byte("link"))}, i == 0)
		if err != nil {
			t.Fatal(err)
		}
		c := &Conn{isCoordinator: i == 0, heartbeat: time.Hour, lost: make(chan struct{}), onEnd: func() {}}
		c.recover = func(_ uint64, why error) { t.Errorf("side %d: the link has broken: %v", i, why) }
		c.changed.L = &c.mu
		if err := c.attach(l, 0); err != nil {
			t.Fatal(err)
		}
		c.checkFlow(l, time.Now().Add(2*time.Hour))
		sides[i] = c
	}
	exchange(t, sides[0], sides[1], 10, func() {})
	for _, c := range sides {
		c.mu.Lock()
		c.end(ErrClosed)
		c.mu.Unlock()
	}
}

// TestMeasuredLater: a link about which nothing was known when it began is not stalled since before it began.
func TestMeasuredLater(t *testing.T) {
	zero, _ := pair(t)
	start := time.Unix(1000, 0)
	zero.mu.Lock()
	defer zero.mu.Unlock()
	var f flow
	f.begin(zero.link.raw, start)
	f.begin(unmeasured{listening: &net.TCPConn{}}, start) // another link
	now := start.Add(time.Hour)
	if d := f.stalled(zero.link.raw, now, time.Minute); d != 0 || f.tcp.Age(now) != 0 || !f.tcp.Again() {
		t.Errorf("stalled for %v; the link is %v old", d, f.tcp.Age(now))
	}
}
