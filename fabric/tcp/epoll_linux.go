package tcp

import (
	"os"

	"golang.org/x/sys/unix"
)

// Tags say what a descriptor in the epoll set is. The tag and a number are the data of its epoll events.
const (
	tagPeer      int32 = iota // number: of the peer
	tagHandshake              // number: handshake.slot
	tagListener               // number: index in Domain.attempts.listeners
	tagTimer
)

// epollCtl adds a descriptor to the epoll set, or modifies it. tag and number come back with its events.
func (d *Domain) epollCtl(op, fd int, events uint32, tag int32, number int) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(number), Pad: tag}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(d.epoll, op, fd, &ev))
}

// watchWritable sets whether epoll reports when the kernel can take more.
func (d *Domain) watchWritable(e *endpoint, on bool) {
	if e.polling.watchingWritable == on || !e.stream.open() {
		return
	}
	e.polling.watchingWritable = on
	if !e.polling.unwatched {
		d.noteError(d.epollCtl(unix.EPOLL_CTL_MOD, e.stream.fd, e.polling.mask(), tagPeer, int(e.peer)))
	}
}

// mask returns the events that epoll is to report.
func (p *polling) mask() uint32 {
	if p.watchingWritable {
		return unix.EPOLLIN | unix.EPOLLOUT
	}
	return unix.EPOLLIN
}

// pollEpoll asks epoll, without blocking, and handles all events except those of the timer. It reports whether there were any
// events, and whether the timer has expired. The caller checks deadlines afterwards, so that input that arrived in time counts.
func (d *Domain) pollEpoll() (found, due bool) {
	n, errno := epollWait(d.epoll, d.epollEvents[:])
	if errno != 0 && errno != unix.EAGAIN {
		d.noteError(os.NewSyscallError("epoll_pwait", errno))
	}
	accept := false
	for _, ev := range d.epollEvents[:n] {
		i := int(ev.Fd)
		switch ev.Pad {
		case tagPeer:
			e := d.peers[i]
			if e.receiveFrames() && e.state == up && e.stream.open() {
				d.activate(e)
			}
		case tagHandshake:
			if hs := d.attempts.handshakes[i]; hs != nil {
				d.advanceHandshake(hs)
			}
		case tagListener:
			accept = true
		case tagTimer:
			due = true
		}
	}
	if accept { // after the handshakes: a new connection does not displace one whose proof has arrived
		for _, ev := range d.epollEvents[:n] {
			if ev.Pad == tagListener {
				d.noteError(d.acceptConnections(d.attempts.listeners[ev.Fd]))
			}
		}
	}
	return n > 0, due
}
