package tcp

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// timer is a descriptor in the epoll set, so that deadlines wake a program that sleeps. It ticks often while somebody is
// being greeted or called, and otherwise to see who is silent.
type timer struct {
	fd   int
	slow time.Duration
	fast bool
}

const fastTick = 10 * time.Millisecond

func (t *timer) init(timeout time.Duration) (err error) {
	t.slow = timeout / 4
	if t.fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		t.fd = -1
		return fmt.Errorf("tcp: make a timer: %w", err)
	}
	return t.every(t.slow)
}

func (t *timer) every(step time.Duration) error {
	ts := unix.NsecToTimespec(step.Nanoseconds())
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Interval: ts, Value: ts}, nil))
}

// hasten makes the timer tick often, as long as there is something to expire.
func (d *Domain) hasten() {
	if !d.timer.fast {
		d.timer.fast = true
		d.note(d.timer.every(fastTick))
	}
}

// tick sees to what depends on time.
func (d *Domain) tick() {
	var count [8]byte
	if _, err := unix.Read(d.timer.fd, count[:]); err != nil && err != unix.EAGAIN {
		d.note(os.NewSyscallError("read timer", err))
	}
	if d.expire(time.Now()) {
		return
	}
	if d.timer.fast {
		d.timer.fast = false
		d.note(d.timer.every(d.timer.slow))
	}
	for _, e := range d.known {
		if e.fd < 0 || e.state != up {
			continue
		}
		if e.look() {
			e.lose(fmt.Errorf("tcp: peer %d: %w: nothing was acknowledged for %v: its node is down or cut off",
				e.peer, fabric.ErrPeerDown, d.timeout))
		}
	}
}

// look asks the kernel how the connection does: what it has sent again, and whether the peer is silent.
func (e *endpoint) look() (gone bool) {
	i, err := inspect(e.fd)
	if err != nil {
		e.d.note(err)
		return false
	}
	e.d.resent += uint64(i.Total_retrans - e.resent)
	e.resent = i.Total_retrans
	return silent(i, e.d.timeout)
}

// Retransmits returns the number of packets that were sent again, as of the last sample of each connection, or its end.
func (d *Domain) Retransmits() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.resent
}

// progress polls in the place of a program that does not.
type progress struct {
	d       *Domain
	timer   *time.Timer
	running bool
	seen    uint // Domain.turns at the last look
	step    time.Duration
}

const (
	firstStep = time.Millisecond
	lastStep  = 16 * time.Millisecond
)

func (p *progress) init(d *Domain) {
	p.d = d
	p.timer = time.AfterFunc(time.Hour, p.run)
	p.timer.Stop()
}

// start looks after the program from now on.
func (p *progress) start() {
	if !p.running {
		p.running, p.step, p.seen = true, firstStep, p.d.turns
		p.timer.Reset(p.step)
	}
}

func (p *progress) stop() {
	p.running = false
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (p *progress) run() {
	d := p.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || !p.running {
		return
	}
	if d.armed { // whatever comes wakes the program; but it may have sent something since, and gone away without sleeping
		for _, e := range d.pending {
			e.flush() // the next Poll takes it off the list, so that epoll still tells a sleeper of the room
		}
		if p.running = len(d.pending) > 0; p.running {
			p.timer.Reset(p.step)
		}
		return
	}
	p.step = min(2*p.step, lastStep)
	if d.turns == p.seen && d.advanceAll() {
		p.step = firstStep
	}
	p.seen = d.turns
	p.timer.Reset(p.step)
}

// advanceAll sends and receives without handing out anything, and reports whether something moved. Deadlines and further calls
// are left to the program.
func (d *Domain) advanceAll() bool {
	for i := range d.full { // what was pushed may be in the way of more, and by now nobody would read it
		if e := d.full[i]; e.pushes.here {
			e.dropPushed()
		}
	}
	moved, _ := d.look()
	for i := 0; i < len(d.hot); i++ { // it may shrink meanwhile
		moved = d.hot[i].pump() || moved
	}
	return d.flush() || moved
}
