package tcp

import (
	"time"
)

// progress polls in place of a program that does not, by a timer of the runtime. Domain.mu guards it.
type progress struct {
	d         *Domain
	timer     *time.Timer
	running   bool          // the timer is running
	lastPolls uint          // Domain.polls when the timer last expired, or soon was called
	interval  time.Duration // until the timer expires
}

// The interval of the timer: minInterval after progress, and twice as long each time without, up to maxInterval.
const (
	minInterval = time.Millisecond
	maxInterval = 16 * time.Millisecond
)

// init makes the timer, stopped.
func (p *progress) init(d *Domain) {
	p.d = d
	p.timer = time.AfterFunc(time.Hour, p.run)
	p.timer.Stop()
}

// start starts the timer, if it is not running.
func (p *progress) start() {
	if !p.running {
		p.running, p.interval, p.lastPolls = true, minInterval, p.d.polls
		p.timer.Reset(p.interval)
	}
}

// soon makes the timer expire after minInterval if its interval is longer. It then makes progress unless the program has polled.
func (p *progress) soon() {
	p.lastPolls = p.d.polls
	if p.running && p.interval > minInterval {
		p.interval = minInterval
		p.timer.Reset(p.interval)
	}
}

// stop stops the timer.
func (p *progress) stop() {
	p.running = false
	if p.timer != nil {
		p.timer.Stop()
	}
}

// run is called when the timer expires. If the program has not polled since, it makes progress in its place. After progress it
// runs again after minInterval, otherwise after twice the last interval.
func (p *progress) run() {
	d := p.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || !p.running {
		return
	}
	if d.armed { // input wakes the program; but it may have sent something since, without sleeping
		for _, e := range d.unsent {
			e.flush() // the next Poll removes it from the list, so that epoll still wakes a sleeper when there is room
		}
		if p.running = len(d.unsent) > 0; p.running {
			p.timer.Reset(p.interval)
		}
		return
	}
	p.interval = min(2*p.interval, maxInterval)
	if d.polls == p.lastPolls && d.makeProgress() {
		p.interval = minInterval
	}
	p.lastPolls = d.polls
	p.timer.Reset(p.interval)
}

// makeProgress sends and receives without returning any event, and reports whether anything moved. It also makes broken
// connections again.
func (d *Domain) makeProgress() bool {
	for i := range d.ready { // pushed memory blocks what is behind it, and it is too late to read it
		if e := d.ready[i]; e.reading.pushes.arrived {
			e.dropPushed()
		}
	}
	moved, due := d.pollEpoll()
	if due {
		d.tick()
	}
	for i := 0; i < len(d.active); i++ { // the list may shrink meanwhile
		moved = d.active[i].receiveFrames() || moved
	}
	if len(d.buffered) != 0 {
		moved = d.receiveBuffered() || moved
	}
	return d.flush() || moved
}
