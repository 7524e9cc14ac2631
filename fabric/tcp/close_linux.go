package tcp

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// Close shuts down all connections, waits up to Transport.Linger until the peers have received what was sent, and frees
// everything.
func (d *Domain) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.progress.stop()
	d.releaseBorrowed()
	for _, e := range d.endpoints {
		if e.state != closing && e.sendErr != fabric.ErrClosed {
			e.shutdown()
		}
	}
	d.awaitAcknowledged()
	for _, fd := range d.attempts.listeners {
		d.noteError(closeFD(fd))
	}
	for _, hs := range d.attempts.handshakes {
		if hs != nil {
			d.abortHandshake(hs)
		}
	}
	for _, e := range d.endpoints {
		e.closeSocket()
	}
	if d.timer.fd >= 0 {
		d.noteError(closeFD(d.timer.fd))
	}
	if d.epoll >= 0 {
		d.noteError(closeFD(d.epoll))
	}
	d.borrowed, d.ready, d.buffers, d.doneEvents = nil, nil, buffers{}, nil
	return d.pendingErr
}

// awaitAcknowledged waits until all peers have acknowledged what was sent, up to Transport.Linger. It still makes broken
// connections again, since the peers wait for what was sent.
func (d *Domain) awaitAcknowledged() {
	unfinished := func(e *endpoint) bool { return e.state == closing }
	for d.closeBy = d.now().Add(d.settings.linger); slices.ContainsFunc(d.endpoints, unfinished); d.sleepWhileClosing() {
		d.flush()
		d.receiveBuffered()
		if _, due := d.pollEpoll(); due {
			d.tick()
		}
		if d.now().After(d.closeBy) {
			return
		}
	}
}

// maxCloseSleepMillis is how long Close sleeps at most between polls, in milliseconds. What it waits for makes the epoll set
// readable; the limit is for an input that TLS has buffered meanwhile.
const maxCloseSleepMillis = 10

// sleepWhileClosing blocks until there is something to do for Close. It does not use the processor, which those that have to
// acknowledge may need.
func (d *Domain) sleepWhileClosing() {
	for _, e := range d.unsent {
		d.watchWritable(e, true)
	}
	fds := []unix.PollFd{{Fd: int32(d.epoll), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, maxCloseSleepMillis) // after an error, which is EINTR, the next poll finds what there is
}

// Close shuts down the connection. Messages that were sent before are still delivered.
func (e *endpoint) Close() error {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	if e.state == closing || e.sendErr == fabric.ErrClosed {
		return nil
	}
	e.shutdown()
	return nil
}

// shutdown closes the endpoint from this side, in order: it sends kindShutdown behind everything else. The endpoint remains in
// the state closing until the peer has acknowledged that.
func (e *endpoint) shutdown() {
	e.sendErr = fabric.ErrClosed
	e.reading.fail(fabric.ErrClosed)
	e.downReported = true
	if e.reading.pushes.arrived {
		e.takePushed(nil)
	}
	e.in.delivered = e.in.parsed
	e.d.deactivate(e)
	if e.state != up || e.self() || !e.conn.agreed {
		e.closeSocket()
		e.in.release(&e.d.buffers)
		return
	}
	e.state = closing
	e.serving = serving{}
	e.sendShutdown()
}

// markDown ends the connection because the peer has closed or is lost. Poll reports that after the messages that were received
// before.
func (e *endpoint) markDown(err error) {
	if e.state == closing || e.state == closed {
		e.closeSocket()
		return
	}
	e.downErr, e.sendErr = err, err
	e.closeSocket()
	e.reading.fail(err)
	e.d.markReady(e)
}

// closeSocket ends the connection for good, and drops what the peer has not received.
func (e *endpoint) closeSocket() {
	e.state = closed
	e.conn.giveUpAt = time.Time{}
	if e.conn.attempt != nil {
		e.d.abortHandshake(e.conn.attempt)
	}
	e.dropConnection()
	e.out.kept, e.conn.addrs = retained{}, nil
}

// dropConnection closes the socket and forgets what concerns only this connection.
func (e *endpoint) dropConnection() {
	if e.stream.open() {
		if s := e.checkConnection(); s != nil {
			e.conn.observe(s, e.d.now(), 0)
		}
		e.d.noteError(e.stream.close())
	}
	e.out.dropUnkept()
	e.serving.first, e.serving.count, e.serving.more = 0, 0, false
	if e.serving.queue != nil {
		clear(e.serving.queue[:])
	}
	e.reading.restart()
	e.in.dropPartial()
	e.polling.unwatched, e.polling.watchingWritable, e.conn.retransmits = false, false, 0
	e.d.deactivate(e)
}
