package tcpflow

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// minRetransmissions is how many retransmissions in a row must be without effect before a flow counts as stalled. One may be
	// lost by chance, and then the next comes less than a second later.
	minRetransmissions = 2
	// minAge is the age from which a connection counts as stalled if nothing can be sent over it although there is room for a whole
	// packet. A device drops packets, and the kernel knows that, if the other end of a virtual one has a smaller MTU. It does not
	// count them as sent then. For less room the kernel waits: the peer's process does not read.
	minAge = time.Second
	// idle is how long nothing was sent on a connection that is idle.
	idle = 500 * time.Millisecond
)

// tcpClose is the state of a socket whose connection has ended: TCP_CLOSE.
const tcpClose = 7

// Sample is what the kernel knows about a connection at some time.
type Sample struct {
	unix.TCPInfo
	// Queued is how many bytes the peer's kernel has not acknowledged, including those that were not sent yet. It is 0 if the
	// kernel does not tell: then nothing counts as stalled.
	Queued int
}

// Read returns a sample of a connection.
func Read(fd int) (*Sample, error) {
	i, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return nil, fmt.Errorf("getsockopt TCP_INFO: %w", err)
	}
	s := &Sample{TCPInfo: *i}
	if i.State == tcpClose { // it has forgotten them
		return s, nil
	}
	if n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err == nil { // some kernels do not have it, such as that of gVisor
		s.Queued = n
	}
	return s, nil
}

// Flow is what is known about the bytes that this process sends to a peer, over one connection after the other. The zero Flow is
// that of a peer without a connection.
type Flow struct {
	acked, received uint64        // bytes of this connection that had been acknowledged, and received, when it began
	queued          uint64        // bytes of this connection that had been sent at some sample since, acknowledged or not; 0: none
	busy            time.Duration // for how long this connection had had something to acknowledge at the time at
	at              time.Time     // when something was acknowledged, or there was nothing to acknowledge
	delivered       uint32        // packets that have arrived, perhaps behind others that have not
	deliveredAt     time.Time     // when this number was first seen
	made            time.Time     // when this connection began
	again           bool          // this connection replaces another one, and nothing long has arrived over it
	got             uint64        // bytes that have been received over this connection, as of the last sample
	moved           bool          // something has been received or acknowledged over this connection
	lost            lost          // what has not arrived since then
}

// lost describes what does not arrive.
type lost struct{ bytes, mtu int } // of a packet; the MTU of this host's interface

// Begin begins a connection. What was sent before, for instance a handshake, does not count. The first connection to a peer
// begins at that time. Another one is expected to carry what did not arrive over the one before.
func (f *Flow) Begin(s *Sample, now time.Time) {
	f.again = !f.made.IsZero()
	if !f.again {
		f.at = now
	}
	f.acked, f.received = s.Bytes_acked+uint64(s.Queued), s.Bytes_received
	f.busy, f.made, f.moved = busyTime(s), now, false
	f.delivered, f.deliveredAt, f.queued, f.got = s.Delivered, now, 0, 0
}

// busyTime returns for how long there has been something to acknowledge on a connection.
func busyTime(s *Sample) time.Duration { return time.Duration(s.Busy_time) * time.Microsecond }

// Observe adds a sample of the connection. It returns for how long the peer's kernel has acknowledged no byte over this
// connection and those before, although there was something to acknowledge. It returns 0 if that is not clear yet, or if any
// packet has arrived in the last time called quiet: where many are lost, some arrive behind others that have not.
func (f *Flow) Observe(s *Sample, now time.Time, quiet time.Duration) time.Duration {
	arrives := s.Delivered != f.delivered
	if arrives {
		f.delivered, f.deliveredAt = s.Delivered, now
	}
	advanced := s.Bytes_acked > f.acked
	long := s.Bytes_acked >= f.acked+uint64(s.Snd_mss)
	f.got = max(s.Bytes_received, f.received) - f.received
	f.moved = f.moved || advanced || f.got >= uint64(s.Snd_mss)
	open, all := s.State != tcpClose, f.arrived(s)
	switch full := s.Snd_wnd == 0; {
	case long, all, (advanced || arrives) && !f.again, open && s.Queued == 0 && (advanced || !f.again || lastSent(s) >= idle):
		f.again, f.lost = f.again && !long, lost{}
		f.acked, f.busy, f.at = max(f.acked, s.Bytes_acked), busyTime(s), now
	case open && full: // the peer's process does not read
		f.busy, f.at = busyTime(s), now
	case !f.again:
		if began := now.Add(f.busy - busyTime(s)); began.After(f.at) { // there was nothing to acknowledge in between
			f.at = began
		}
	}
	if now.Sub(f.deliveredAt) < quiet || !s.Stalls(f.Age(now)) {
		return 0
	}
	f.lost = s.lost()
	return now.Sub(f.at)
}

// arrived reports whether all has been acknowledged that had been sent at some earlier sample.
func (f *Flow) arrived(s *Sample) bool {
	all := f.queued > 0 && s.Bytes_acked >= f.queued
	if all {
		f.queued = 0
	}
	if f.queued == 0 && s.Queued > 0 {
		f.queued = s.Bytes_acked + uint64(s.Queued)
	}
	return all
}

// Stalls reports whether the peer's kernel, which has room, acknowledges nothing of what was sent over a connection of this age,
// or whether nothing can be sent. Linux before 5.4 does not tell how much room there is: there, no connection stalls.
func (s *Sample) Stalls(age time.Duration) bool {
	if s.State == tcpClose || s.Queued == 0 || s.Snd_wnd == 0 {
		return false
	}
	return s.Retransmits >= minRetransmissions || s.Unacked == 0 && age >= minAge && int(s.Snd_wnd) >= s.packet()
}

// packet returns how many bytes the next packet has.
func (s *Sample) packet() int { return min(s.Queued, int(s.Snd_mss)) }

// lost returns what does not arrive if the connection stalls.
func (s *Sample) lost() lost { return lost{s.packet(), int(s.Pmtu)} }

// lastSent returns for how long nothing was sent on a connection.
func lastSent(s *Sample) time.Duration { return time.Duration(s.Last_data_sent) * time.Millisecond }

// Again reports whether the connection was made again since the flow has stalled. Short packets may have arrived over it.
func (f *Flow) Again() bool { return f.again && !f.at.After(f.made) }

// InVain reports whether the connection replaces another one, and nothing has arrived over it in either direction.
func (f *Flow) InVain() bool { return f.again && !f.moved }

// Received returns how many bytes have been received over the connection since it began, as of the last sample.
func (f *Flow) Received() uint64 { return f.got }

// Since returns when something was acknowledged, or there was nothing to acknowledge, as of the last sample.
func (f *Flow) Since() time.Time { return f.at }

// Age returns how long the connection exists.
func (f *Flow) Age(now time.Time) time.Duration { return now.Sub(f.made) }

// Skip leaves out a time d before now in which this process was stopped.
func (f *Flow) Skip(d time.Duration, now time.Time) {
	if f.made.IsZero() {
		return
	}
	for _, t := range []*time.Time{&f.at, &f.deliveredAt, &f.made} {
		if *t = t.Add(d); t.After(now) { // it was set after that time
			*t = now
		}
	}
}

// Pause leaves out the time until now, in which the flow was not observed.
func (f *Flow) Pause(now time.Time) { f.at, f.deliveredAt = now, now }

// shortBytes is what every network takes in one packet. The messages that begin a connection are shorter.
const shortBytes = 500

// Cause returns why nothing that was sent arrives, although the peer's host answers, and what to do; nil if the flow has not
// stalled since something arrived last.
func (f *Flow) Cause() error {
	if f.lost == (lost{}) {
		return nil
	}
	return f.lost.cause()
}

// Cause is that of a flow, for a connection that stalls.
func (s *Sample) Cause() error { return s.lost().cause() }

func (l lost) cause() error {
	which := ""
	if l.bytes >= shortBytes {
		which = fmt.Sprintf(": packets with %d bytes of data are lost, and short ones are not", l.bytes)
	}
	return fmt.Errorf("its host answers, but long packets do not arrive%s. Probably the MTU of a switch or tunnel between the two "+
		"is less than that of their interfaces (%d): raise it, or lower that of the interfaces, or set the sysctl "+
		"net.ipv4.tcp_mtu_probing to 1; or a firewall drops packets", which, l.mtu)
}
