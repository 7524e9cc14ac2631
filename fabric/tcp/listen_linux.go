package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// maxUnauthenticated is the maximum number of accepted connections in their handshake. See package admission for those beyond
	// it. All ranks of a node are one source, which has half of the places.
	maxUnauthenticated = 512
	// minUnauthenticatedAge is how long a connection may take for its handshake at least, which needs a few round trips.
	minUnauthenticatedAge = 200 * time.Millisecond
	// acceptBatch is the number of connections that are accepted in one go, so that a flood of them does not block the program.
	acceptBatch = 16
)

// startListening listens on the addresses of the chosen interfaces, maxAddrs at most, and sets the domain's address.
func (d *Domain) startListening() error {
	var addrs []netip.AddrPort
	for _, i := range d.settings.ifaces {
		for _, p := range i.prefixes {
			if len(addrs) == maxAddrs {
				break
			}
			fd, port, err := listen(i.zoned(p.Addr()))
			if errors.Is(err, unix.EADDRNOTAVAIL) {
				continue // was removed since it was listed, or the kernel is still checking it for duplicates
			}
			if err != nil {
				return err
			}
			d.attempts.listeners = append(d.attempts.listeners, fd)
			if err := d.epollCtl(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, tagListener, len(d.attempts.listeners)-1); err != nil {
				return err
			}
			addrs = append(addrs, netip.AddrPortFrom(p.Addr(), port))
		}
	}
	if len(addrs) == 0 {
		return fmt.Errorf("%w: none of the chosen network interfaces has an address to listen on", fabric.ErrNotSupported)
	}
	slices.SortStableFunc(addrs, func(a, b netip.AddrPort) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	d.address = appendAddress(nil, addrs)
	return nil
}

// acceptConnections accepts connections of a listener, acceptBatch at most. It returns errors of this domain only, not of
// connections.
func (d *Domain) acceptConnections(listener int) error {
	for range acceptBatch {
		fd, from, err := accept(listener)
		switch err {
		case nil:
		case unix.EAGAIN:
			return nil
		case unix.ECONNABORTED, unix.EINTR, unix.EPROTO, unix.EPERM:
			continue // this connection only: the client has closed, for example
		default: // out of descriptors or memory: clients will try again
			return nil
		}
		if !d.admit(fd, from) {
			continue
		}
		if _, err := d.startHandshake(fd, nil, awaitHello, unix.EPOLLIN); err != nil {
			d.attempts.unauthenticated.Remove(fd)
			return err
		}
	}
	return nil
}

// admit makes room for a connection that was accepted from an address, and closes another one for it if there are too many. It
// reports false if there is no room: the connection is closed. A rank to which that happens connects again after a while.
func (d *Domain) admit(fd int, from netip.Addr) bool {
	drop, full := d.attempts.unauthenticated.Add(fd, from, d.now())
	if !full {
		return true
	}
	if drop == fd {
		d.noteError(closeFD(fd))
		return false
	}
	i := slices.IndexFunc(d.attempts.handshakes, func(hs *handshake) bool {
		return hs != nil && hs.ep == nil && hs.stream.fd == drop
	})
	d.abortHandshake(d.attempts.handshakes[i])
	return true
}
