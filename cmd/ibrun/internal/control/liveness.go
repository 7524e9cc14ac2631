package control

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
)

// If a link breaks, the coordinator must know whether the ibrun on the other side has died or will
// make a new link. That ibrun listens on a port for nothing else: the kernel refuses connections to
// the port of a process that has died. A process that connects receives a few bytes that only this
// ibrun knows, and nothing is read. From when a node joins, the coordinator tests until it succeeds
// whether it reaches the port, which a firewall may prevent.

const (
	// probeTimeout bounds one attempt to connect.
	probeTimeout = 2 * time.Second
	// unreachableWait is how long the coordinator waits for a new link from a node whose port it
	// cannot reach.
	unreachableWait = 2 * time.Second
	// bannerLen is the number of bytes that show that this port is the right one.
	bannerLen = 16
)

// listenAlive opens the port at the address of this side of a link. It returns nil, and the port 0,
// if that is not possible: the coordinator then treats this node as one that it cannot reach.
func listenAlive(raw net.Conn) (l net.Listener, port int) {
	local, ok := raw.LocalAddr().(*net.TCPAddr)
	if !ok {
		return nil, 0
	}
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: local.IP, Zone: local.Zone})
	if err != nil {
		return nil, 0
	}
	return tcp, tcp.Addr().(*net.TCPAddr).Port
}

// serveAlive sends the banner over every connection, until the listener is closed.
func serveAlive(l net.Listener, banner []byte) {
	for {
		raw, err := l.Accept()
		switch {
		case err == nil:
			_ = raw.SetWriteDeadline(time.Now().Add(probeTimeout))
			_, _ = raw.Write(banner) // fits the empty buffer of a new socket, so this does not block
			raw.Close()
		case errors.Is(err, net.ErrClosed):
			return
		default: // out of file descriptors, or the client has already closed the connection
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// closeAlive closes what listenAlive has returned.
func closeAlive(l net.Listener) {
	if l != nil {
		l.Close()
	}
}

// aliveProbe is the port of another node.
type aliveProbe struct {
	addr   string // empty: the node has none
	banner []byte
}

func newAliveProbe(remote net.Addr, port int, banner []byte) aliveProbe {
	host, _, err := net.SplitHostPort(remote.String())
	if port == 0 || err != nil {
		return aliveProbe{}
	}
	return aliveProbe{net.JoinHostPort(host, strconv.Itoa(port)), banner}
}

// dial connects to the port. The error is [syscall.ECONNREFUSED] if no process listens there.
func (p aliveProbe) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: probeTimeout}
	return d.DialContext(ctx, "tcp", p.addr)
}

// reaches reports whether the right process listens there.
func (p aliveProbe) reaches(ctx context.Context) bool {
	raw, err := p.dial(ctx)
	if err != nil {
		return false
	}
	defer raw.Close()
	banner := make([]byte, bannerLen)
	if raw.SetReadDeadline(time.Now().Add(probeTimeout)) != nil {
		return false
	}
	_, err = io.ReadFull(raw, banner)
	return err == nil && auth.Equal(banner, p.banner)
}

// refused reports whether the host of the other side says that no process listens on a port.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
