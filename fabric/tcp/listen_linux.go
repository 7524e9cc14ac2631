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
	// maxUnauthenticated is the number of accepted connections that may be in their handshake. Further ones wait in the kernel, or
	// replace the oldest one if that is at least as old as minEvictAge.
	maxUnauthenticated = 128
	minEvictAge        = 100 * time.Millisecond
	// acceptBatch is the number of connections that are accepted in one go, so that a flood of them does not block the program.
	acceptBatch = 16
)

// startListening listens on the addresses of the chosen interfaces, maxAddrs at most, and sets the domain's address.
func (d *Domain) startListening() error {
	var addrs []netip.AddrPort
	for _, i := range d.ifaces {
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
			d.listeners = append(d.listeners, fd)
			if err := d.epollCtl(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, tagListener, len(d.listeners)-1); err != nil {
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
		if d.unauthenticated >= maxUnauthenticated && !d.evictOldest() {
			return nil
		}
		fd, err := accept(listener)
		switch err {
		case nil:
		case unix.EAGAIN:
			return nil
		case unix.ECONNABORTED, unix.EINTR, unix.EPROTO, unix.EPERM:
			continue // this connection only: the client has closed, for example
		default: // out of descriptors or memory: clients will try again
			return nil
		}
		if _, err := d.startHandshake(fd, nil, awaitHello, unix.EPOLLIN); err != nil {
			return err
		}
	}
	return nil
}

// evictOldest aborts the oldest handshake of an accepted connection, unless it is younger than minEvictAge. It reports whether
// there is room now.
func (d *Domain) evictOldest() bool {
	var oldest *handshake
	for _, hs := range d.handshakes {
		if hs != nil && hs.ep == nil && (oldest == nil || hs.started.Before(oldest.started)) {
			oldest = hs
		}
	}
	if oldest != nil && time.Since(oldest.started) < minEvictAge {
		return false
	}
	d.abortHandshake(oldest)
	return true
}
