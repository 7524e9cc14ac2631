package tcp

import (
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

// epollEvery is the number of polls of which one asks epoll about all other descriptors.
const epollEvery = 32

// Poll returns what has been received: it receives from the active connections, now and then from all others, and then returns
// messages and other events.
func (d *Domain) Poll(evs []fabric.Event) (int, error) {
	d.mu.Lock()
	n, err := d.poll(evs)
	d.mu.Unlock()
	return n, err
}

// poll is Poll with mu held.
func (d *Domain) poll(evs []fabric.Event) (int, error) {
	if d.closed {
		return 0, fabric.ErrClosed
	}
	if len(d.borrowed) != 0 {
		d.releaseBorrowed()
	}
	d.polls++
	all := d.polls%epollEvery == 0
	if d.armed {
		d.armed, all = false, true
		d.progress.start()
	}
	if len(d.unsent) != 0 {
		d.flush()
	}
	for i := 0; i < len(d.active); i++ {
		switch e := d.active[i]; {
		case e.in.delivered < e.in.parsed: // the program has not taken the messages received before
		case e.receiveFrames():
			e.polling.idlePolls = 0
			if e.polling.busyPolls++; e.polling.busyPolls == unwatchAfter {
				d.unwatch(e)
			}
		default:
			if e.polling.idlePolls++; e.polling.idlePolls > maxIdlePolls {
				d.deactivate(e)
			}
		}
	}
	if len(d.buffered) != 0 {
		d.receiveBuffered()
	}
	if all || len(d.active) == 0 {
		if _, due := d.pollEpoll(); due {
			d.tick()
		}
	}
	n := 0
	if len(d.doneEvents) != 0 {
		n = copy(evs, d.doneEvents)
		d.doneEvents = slices.Delete(d.doneEvents, 0, n)
	}
	if len(d.ready) != 0 {
		n += d.deliver(evs[n:])
	}
	err := d.pendingErr
	d.pendingErr = nil
	return n, err
}

// releaseBorrowed ends the validity of the messages that the last Poll returned.
func (d *Domain) releaseBorrowed() {
	for _, e := range d.borrowed {
		e.in.endBorrowing(&d.buffers)
	}
	d.borrowed = d.borrowed[:0]
}

// markReady adds an endpoint that has something to return to Domain.ready.
func (d *Domain) markReady(e *endpoint) {
	if !e.polling.ready {
		e.polling.ready = true
		d.ready = append(d.ready, e)
	}
}

// deliver takes events from the endpoints in Domain.ready, round-robin.
func (d *Domain) deliver(evs []fabric.Event) int {
	n := 0
	for k := len(d.ready); k > 0 && n < len(evs); k-- {
		e := d.ready[0]
		n += e.deliver(evs[n:])
		copy(d.ready, d.ready[1:])
		d.ready = d.ready[:len(d.ready)-1]
		if e.hasEvents() {
			d.ready = append(d.ready, e) // behind the others
			continue
		}
		e.polling.ready = false
		e.in.releaseEmpty(&d.buffers)
	}
	return n
}

// Arm prepares to sleep on the epoll descriptor. For that all sockets and all awaited events must be in the epoll set.
func (d *Domain) Arm() (int, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return -1, false, fabric.ErrClosed
	}
	d.releaseBorrowed()
	if len(d.ready) != 0 || len(d.doneEvents) != 0 || len(d.buffered) != 0 || d.pendingErr != nil {
		return d.epoll, true, nil
	}
	d.armed = true
	for _, e := range d.unsent {
		d.watchWritable(e, true)
	}
	for _, e := range d.active {
		d.rewatch(e)
	}
	return d.epoll, false, nil
}

// deliver fills evs with messages, and with PeerDown after the last one.
func (e *endpoint) deliver(evs []fabric.Event) int {
	if e.reading.pushes.arrived && e.in.delivered == e.in.parsed && !e.in.borrowed {
		e.dropPushed() // the message before it was returned by an earlier Poll, so the Read did not come in time
	}
	n := 0
	for n < len(evs) && e.in.delivered < e.in.parsed {
		k, size := storedFrame(e.in.buf[e.in.delivered:])
		at := e.in.delivered + headerBytes
		e.in.delivered = at + size
		if k != kindMessage {
			continue
		}
		ev := &evs[n] // field by field: the others are not used here, and clearing them costs time
		ev.Kind, ev.Peer, ev.Data, ev.Err = fabric.Message, e.peer, e.in.buf[at:at+size:at+size], nil
		n++
		if !e.in.borrowed {
			e.in.borrowed = true
			e.d.borrowed = append(e.d.borrowed, e)
		}
	}
	if n < len(evs) && e.in.delivered == e.in.parsed && e.downErr != nil && !e.downReported {
		e.downReported = true
		evs[n] = fabric.Event{Kind: fabric.PeerDown, Peer: e.peer, Err: e.downErr}
		n++
	}
	return n
}

// hasEvents reports whether deliver has more to return.
func (e *endpoint) hasEvents() bool {
	return e.in.delivered < e.in.parsed || e.reading.pushes.arrived || e.downErr != nil && !e.downReported
}
