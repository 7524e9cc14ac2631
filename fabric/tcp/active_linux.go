package tcp

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// maxActive is the number of connections that every Poll receives from without asking epoll.
	maxActive = 4
	// maxIdlePolls is the number of polls in a row without input after which a connection is not active any more.
	maxIdlePolls = 5000
	// unwatchAfter is the number of polls with input after which an active connection is removed from epoll. That saves the kernel
	// a twentieth of its work on every message, and costs two system calls whenever the program sleeps.
	unwatchAfter = 100
)

// activate makes an endpoint active: every Poll receives from it. If there are too many, it replaces the one without input for
// longest.
func (d *Domain) activate(e *endpoint) {
	e.polling.idlePolls = 0
	if e.polling.active {
		return
	}
	if len(d.active) == maxActive {
		d.deactivate(slices.MaxFunc(d.active, func(a, b *endpoint) int { return a.polling.idlePolls - b.polling.idlePolls }))
	}
	e.polling.active = true
	d.active = append(d.active, e)
}

// deactivate leaves an endpoint to epoll.
func (d *Domain) deactivate(e *endpoint) {
	if e.polling.active {
		e.polling.active = false
		d.rewatch(e)
		d.active = slices.DeleteFunc(d.active, func(x *endpoint) bool { return x == e })
	}
}

// unwatch removes an active endpoint from the epoll set.
func (d *Domain) unwatch(e *endpoint) {
	if e.stream.open() {
		e.polling.unwatched = true
		d.noteError(os.NewSyscallError("epoll_ctl", unix.EpollCtl(d.epoll, unix.EPOLL_CTL_DEL, e.stream.fd, nil)))
	}
}

// rewatch undoes unwatch.
func (d *Domain) rewatch(e *endpoint) {
	if e.polling.busyPolls = 0; e.polling.unwatched {
		e.polling.unwatched = false
		if e.stream.open() {
			d.noteError(d.epollCtl(unix.EPOLL_CTL_ADD, e.stream.fd, e.polling.mask(), tagPeer, int(e.peer)))
		}
	}
}
