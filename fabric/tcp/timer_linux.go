package tcp

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timer is a timerfd in the epoll set, so that deadlines wake a program that sleeps. It expires every fastTick while there are
// handshakes or connection attempts. Otherwise it expires every slowTick, to find peers that do not acknowledge anything.
type timer struct {
	fd       int
	slowTick time.Duration
	fast     bool
	ticked   time.Time // when tick was last called, or deadlines were extended
	checked  time.Time // when the connections were last checked
}

// maxLate is how late a tick may be before the process is taken to have been stopped.
const maxLate = 500 * time.Millisecond

// fastTick is the interval of the timer while there are handshakes or connection attempts.
const fastTick = 10 * time.Millisecond

// init makes the timer. timeout is Transport.Timeout.
func (t *timer) init(timeout time.Duration) (err error) {
	t.slowTick = timeout / 10
	t.ticked, t.checked = time.Now(), time.Now()
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
		d.timer.fast, d.timer.ticked = true, d.now()
		d.noteError(d.timer.setInterval(fastTick))
	}
}

// tick handles an expiration of the timer: deadlines, and connections that do not acknowledge anything.
func (d *Domain) tick() {
	var count [8]byte
	if _, err := unix.Read(d.timer.fd, count[:]); err != nil && err != unix.EAGAIN {
		d.noteError(os.NewSyscallError("read timer", err))
	}
	now := d.now()
	d.timer.ticked = now
	pending := d.checkDeadlines(now)
	if !pending && d.timer.fast {
		d.timer.fast = false
		d.noteError(d.timer.setInterval(d.timer.slowTick))
	}
	if now.Sub(d.timer.checked) < d.timer.slowTick*9/10 {
		return
	}
	d.timer.checked = now
	for _, e := range d.endpoints {
		if e.stream.open() {
			e.checkResponds(now)
			e.checkIdle()
		}
	}
}

// now returns the time. If this process was stopped, or did not poll, it extends all deadlines first. Code that sets or
// compares a deadline must call now: events that came while the process was stopped may be handled before that of the timer.
func (d *Domain) now() time.Time {
	now, interval := d.clock(), d.timer.slowTick
	if d.timer.fast {
		interval = fastTick
	}
	if missed := now.Sub(d.timer.ticked) - interval; missed >= maxLate {
		d.timer.ticked = now
		d.extendDeadlines(missed, now)
	}
	return now
}

// extendDeadlines extends all deadlines by a time in which this process was stopped, or did not poll: that is not the fault of
// the peers.
func (d *Domain) extendDeadlines(missed time.Duration, now time.Time) {
	d.closeBy = d.closeBy.Add(missed)
	for _, hs := range d.attempts.handshakes {
		if hs != nil {
			hs.deadline = hs.deadline.Add(missed)
		}
	}
	for _, e := range d.endpoints {
		e.conn.flow.Skip(missed, now)
		if e.connecting() {
			e.conn.giveUpAt = e.conn.giveUpAt.Add(missed)
			if e.conn.since = e.conn.since.Add(missed); e.conn.since.After(now) {
				e.conn.since = now
			}
		}
	}
}

// checkIdle acknowledges what was received and not acknowledged since, so that the peer can free it, and frees what the peer
// has acknowledged.
func (e *endpoint) checkIdle() {
	if e.framing.received != e.framing.ackSent {
		e.sendControl(kindAck, nil)
	}
	e.out.kept.release()
	if e.stream.needsNewKey() {
		e.reconnect(errRekey)
	}
}
