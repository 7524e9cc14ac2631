package control

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/tcpflow"
)

// TestRelinkedInSilence: that another link was made is no sign of life. The other side is lost at the end of the heartbeat after
// it was heard last, or half of one after the first link that was made since, and the error says that long packets may be lost.
func TestRelinkedInSilence(t *testing.T) {
	const heartbeat = time.Hour
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		isNode0  bool
		relinked time.Duration // after the other side was heard; 0: never
		want     time.Duration
	}{
		{true, 0, heartbeat},
		{false, 0, heartbeat / 2},
		{true, heartbeat / 4, heartbeat},
		{true, heartbeat * 3 / 4, heartbeat * 5 / 4},
		{false, heartbeat / 2, heartbeat},
		{false, heartbeat * 3 / 4, heartbeat * 5 / 4},
	} {
		conn := &Conn{isNode0: c.isNode0, heartbeat: heartbeat, heard: start}
		if c.relinked > 0 {
			conn.relinked = start.Add(c.relinked)
		}
		if got := conn.readDeadline(&link{}).Sub(start); got != c.want {
			t.Errorf("%+v: the deadline is %v after the other side was heard", c, got)
		}
		if err := conn.silence(); !errors.Is(err, ErrSilent) || strings.Contains(err.Error(), "MTU") != (c.relinked > 0) {
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
	for _, isNode0 := range []bool{true, false} {
		c := &Conn{isNode0: isNode0, heartbeat: heartbeat, lost: make(chan struct{}), onEnd: func() {}}
		c.changed.L = &c.mu
		judge := func(after time.Duration) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			now := start.Add(after)
			return c.judge(c.flow.tcp.Observe(lost, now, heartbeat/4), now)
		}
		c.flow.tcp.Begin(&tcpflow.Sample{}, start)
		if err := judge(heartbeat/2 - 1); err != nil {
			t.Errorf("node 0: %v: too early: %v", isNode0, err)
		}
		if err := judge(heartbeat / 2); (err == errStalled) == isNode0 {
			t.Errorf("node 0: %v: after half of the heartbeat: %v", isNode0, err)
		}
		c.flow.tcp.Begin(&tcpflow.Sample{}, start.Add(heartbeat/2))
		if err := judge(heartbeat - 1); err != nil || c.err != nil {
			t.Errorf("node 0: %v: the new link: %v, %v", isNode0, err, c.err)
		}
		err := judge(heartbeat)
		if err != nil || !errors.Is(c.err, ErrUnreached) || !strings.Contains(c.err.Error(), "MTU") || c.LostSince() != start {
			t.Errorf("node 0: %v: %v, %v, since %v", isNode0, err, c.err, c.LostSince())
		}
	}
}

// TestSuspendedFlow: the time in which a side is suspended does not count as one in which nothing arrives.
func TestSuspendedFlow(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []*Conn{{suspended: true, heartbeat: time.Minute}, {peerSuspended: true, heartbeat: time.Minute}} {
		c.link = &link{}
		c.flow.tcp.Begin(&tcpflow.Sample{}, now)
		later := now.Add(time.Hour)
		if c.checkFlow(c.link, later); c.flow.tcp.Since() != later {
			t.Errorf("%v, %v: something is expected since %v", c.suspended, c.peerSuspended, c.flow.tcp.Since())
		}
	}
}
