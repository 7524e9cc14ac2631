package tcp

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// Close shuts down all connections, waits up to Transport.Linger for what was sent to reach the kernels of the peers, and frees
// everything.
func (d *Domain) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.progress.stop()
	for _, fd := range d.listeners {
		d.noteError(closeFD(fd))
	}
	for _, hs := range d.handshakes {
		if hs != nil {
			d.abortHandshake(hs)
		}
	}
	for _, e := range d.endpoints {
		if e.state != closing && e.sendErr != fabric.ErrClosed {
			e.shutdown()
		}
	}
	d.awaitAcknowledged()
	for _, e := range d.endpoints {
		e.closeSocket()
	}
	if d.timer.fd >= 0 {
		d.noteError(closeFD(d.timer.fd))
	}
	if d.epoll >= 0 {
		d.noteError(closeFD(d.epoll))
	}
	d.borrowed, d.ready, d.freeBuffers, d.doneEvents = nil, nil, nil, nil
	return d.pendingErr
}

// awaitAcknowledged waits until the kernels of all peers have acknowledged what was sent, up to Transport.Linger. If a socket
// with unread input is closed before, the kernel resets the connection and drops what is still in flight.
func (d *Domain) awaitAcknowledged() {
	waiting := slices.Clone(d.endpoints)
	for end := time.Now().Add(d.linger); ; time.Sleep(100 * time.Microsecond) {
		d.flush()
		waiting = slices.DeleteFunc(waiting, func(e *endpoint) bool {
			if e.stream.fd < 0 {
				return true
			}
			d.discardInput(e)
			if e.stream.fd < 0 || e.hasUnsent() {
				return e.stream.fd < 0
			}
			n, err := e.stream.unacked()
			return n == 0 || err != nil
		})
		if len(waiting) == 0 || time.Now().After(end) {
			return
		}
	}
}

// discardInput drops what a peer sends after this side has shut down, until the peer closes.
func (d *Domain) discardInput(e *endpoint) {
	b := d.getBuffer()
	for range maxFlushBytes / bufferBytes {
		n, errno := e.stream.receive(b)
		if errno == unix.EAGAIN {
			break
		}
		if n == 0 {
			e.closeSocket()
			break
		}
	}
	d.putBuffer(b)
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

// shutdown closes the endpoint from this side, in order: it sends kindShutdown behind everything else.
func (e *endpoint) shutdown() {
	connected := e.state == up && e.stream.fd >= 0
	e.sendErr = fabric.ErrClosed
	e.failReads(fabric.ErrClosed)
	e.downReported, e.recvInto, e.pushes = true, nil, pushes{}
	e.delivered, e.parsed = e.filled, e.filled
	e.releaseBuffer()
	e.d.deactivate(e)
	if !connected {
		e.closeSocket()
		e.state = closed
		return
	}
	e.state = closing
	e.serving = serving{}
	if !e.sendControl(kindShutdown, nil) {
		e.closeSocket()
	}
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
	e.failReads(err)
	e.d.markReady(e)
}

// closeSocket closes the socket and drops what was not sent.
func (e *endpoint) closeSocket() {
	e.state = closed
	if e.attempt != nil {
		e.d.abortHandshake(e.attempt)
	}
	if e.stream.fd >= 0 {
		e.checkConnection()
		e.d.noteError(e.stream.close())
	}
	e.advanceUnsent(len(e.outHead) + len(e.outBody) + len(e.out) - e.outSent)
	e.serving, e.recvInto = serving{}, nil
	e.pushes.arrived, e.pushes.skip = false, 0
	e.filled = e.parsed // the rest of the last frame will not arrive
	e.d.deactivate(e)
}

// connectionEnded is called when the connection has ended without kindShutdown from the peer.
func (e *endpoint) connectionEnded(errno unix.Errno) {
	err := e.lastErr // an error of sending came first
	if err == nil && errno != 0 {
		err = e.stream.cause(errno)
	}
	if err == nil {
		e.markDown(fmt.Errorf("tcp: peer %d: %w: its TCP connection closed unexpectedly", e.peer, fabric.ErrPeerDown))
		return
	}
	e.markDown(fmt.Errorf("tcp: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
}
