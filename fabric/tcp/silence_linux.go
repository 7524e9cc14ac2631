package tcp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/tcpflow"
)

// checkResponds finds out whether the peer's kernel responds, and whether what was sent arrives. If not for a while, another
// connection is tried; if not for the timeout, the peer is lost.
func (e *endpoint) checkResponds(now time.Time) {
	if s := e.checkConnection(); s != nil {
		e.judge(s, e.conn.observe(s, now, e.d.settings.timeout/suspectFraction), now)
	}
}

// judge acts on a sample of the connection. stalled is for how long nothing that was sent has arrived.
func (e *endpoint) judge(s *tcpflow.Sample, stalled time.Duration, now time.Time) {
	silent := silence(&s.TCPInfo)
	connects := e.conn.attempt == nil || e.conn.attempt.phase == connecting
	switch soon := e.d.settings.timeout / suspectFraction; {
	case silent >= e.d.settings.timeout && connects:
		e.conn.broken = errSilent
		e.lost(nil)
	case stalled >= e.d.settings.timeout && connects && e.conn.flow.Again():
		e.notReached()
	case silent < soon && stalled < soon:
		e.trust()
	case e.conn.giveUpAt.IsZero() && e.conn.mayTryAgain(stalled, now, e.d.settings.timeout):
		e.suspect(now.Add(-max(silent, stalled)))
	case silent < soon && e.conn.attempt != nil && e.conn.attempt.phase == awaitChallenge:
		e.conn.since = now // the host answers over both connections, so only the process is stopped
	}
}

// suspectFraction is the part of the timeout after which another connection is tried to a peer that does not acknowledge
// anything.
const suspectFraction = 5

// probingTime is how long a connection that was made again is left alone at least. The kernel takes less to find out that long
// packets are lost, if it tries shorter ones (tcp_mtu_probing); another connection would begin with long ones.
const probingTime = 4 * time.Second

// checkConnection reads the kernel's statistics of the connection, and adds up retransmissions. It returns nil if there are
// none.
func (e *endpoint) checkConnection() *tcpflow.Sample {
	s, err := tcpflow.Read(e.stream.fd)
	if err != nil {
		e.d.noteError(err)
		return nil
	}
	e.d.stats.retransmits += uint64(s.Total_retrans - e.conn.retransmits)
	e.conn.retransmits = s.Total_retrans
	return s
}

// Retransmits returns how many packets were retransmitted, as of the last check of each connection, or its end.
func (d *Domain) Retransmits() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats.retransmits
}

// Reconnects returns how many connections were made again, and how often checksums or TLS have found changed bytes.
func (d *Domain) Reconnects() (connections, changed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats.reconnects, d.stats.mismatches
}

// silence returns for how long the peer's kernel has acknowledged nothing, although there was something to acknowledge and at
// least two retransmissions or probes were sent. It returns 0 if the peer responds.
func silence(i *unix.TCPInfo) time.Duration {
	if int(i.Retransmits)+int(i.Probes) < 2 {
		return 0
	}
	return time.Duration(i.Last_ack_recv) * time.Millisecond
}
