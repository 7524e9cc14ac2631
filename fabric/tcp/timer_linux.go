package tcp

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// timer is a timerfd in the epoll set, so that deadlines wake a program that sleeps. It expires every fastTick while there are
// handshakes or connection attempts. Otherwise it expires every slowTick, to find peers that do not acknowledge anything.
type timer struct {
	fd       int
	slowTick time.Duration
	fast     bool
}

// fastTick is the interval of the timer while there are handshakes or connection attempts.
const fastTick = 10 * time.Millisecond

// init makes the timer. timeout is Transport.Timeout.
func (t *timer) init(timeout time.Duration) (err error) {
	t.slowTick = timeout / 4
	if t.fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		t.fd = -1
		return fmt.Errorf("tcp: create a timer: %w", err)
	}
	return t.setInterval(t.slowTick)
}

// setInterval makes the timer expire periodically.
func (t *timer) setInterval(step time.Duration) error {
	ts := unix.NsecToTimespec(step.Nanoseconds())
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Interval: ts, Value: ts}, nil))
}

// startFastTicks makes the timer expire every fastTick, until there are no handshakes and attempts any more.
func (d *Domain) startFastTicks() {
	if !d.timer.fast {
		d.timer.fast = true
		d.noteError(d.timer.setInterval(fastTick))
	}
}

// tick handles an expiration of the timer: deadlines, and connections that do not acknowledge anything.
func (d *Domain) tick() {
	var count [8]byte
	if _, err := unix.Read(d.timer.fd, count[:]); err != nil && err != unix.EAGAIN {
		d.noteError(os.NewSyscallError("read timer", err))
	}
	if d.checkDeadlines(time.Now()) {
		return
	}
	if d.timer.fast {
		d.timer.fast = false
		d.noteError(d.timer.setInterval(d.timer.slowTick))
	}
	for _, e := range d.endpoints {
		if e.stream.fd < 0 || e.state != up {
			continue
		}
		if e.checkConnection() {
			e.markDown(fmt.Errorf("tcp: peer %d: %w: nothing was acknowledged for %v: its node is down or unreachable",
				e.peer, fabric.ErrPeerDown, d.timeout))
		}
	}
}

// checkConnection reads the kernel's statistics of the connection. It adds up retransmissions and reports whether the peer's
// kernel does not respond any more.
func (e *endpoint) checkConnection() (lost bool) {
	i, err := tcpInfo(e.stream.fd)
	if err != nil {
		e.d.noteError(err)
		return false
	}
	e.d.retransmits += uint64(i.Total_retrans - e.retransmits)
	e.retransmits = i.Total_retrans
	return ackTimedOut(i, e.d.timeout)
}

// Retransmits returns how many packets were retransmitted, as of the last check of each connection, or its end.
func (d *Domain) Retransmits() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.retransmits
}

// ackTimedOut reports whether the peer's kernel has acknowledged nothing for timeout, although there was something to acknowledge
// and at least two retransmissions or probes were sent.
func ackTimedOut(i *unix.TCPInfo, timeout time.Duration) bool {
	sent := int(i.Retransmits) + int(i.Probes)
	return sent >= 2 && time.Duration(i.Last_ack_recv)*time.Millisecond >= timeout
}
