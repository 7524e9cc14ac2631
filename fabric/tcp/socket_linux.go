package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

func probe() error { return nil }

// sockaddr is where a socket is bound or connected to.
func sockaddr(at netip.AddrPort) (family int, sa unix.Sockaddr, err error) {
	ip := at.Addr()
	if ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: ip.As4()}, nil
	}
	zone := 0
	if ip.Zone() != "" {
		if zone, err = strconv.Atoi(ip.Zone()); err != nil {
			return 0, nil, fmt.Errorf("tcp: zone of %v: %w", ip, err)
		}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(at.Port()), Addr: ip.As16(), ZoneId: uint32(zone)}, nil
}

// newSocket makes a non-blocking socket and does something with it and the address.
func newSocket(at netip.AddrPort, then func(fd int, sa unix.Sockaddr) error) (int, error) {
	family, sa, err := sockaddr(at)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := then(fd, sa); err != nil {
		return -1, errors.Join(err, shut(fd))
	}
	return fd, nil
}

// listen listens at an address, and returns the port that the kernel chose.
func listen(ip netip.Addr) (fd int, port uint16, err error) {
	fd, err = newSocket(netip.AddrPortFrom(ip, 0), func(fd int, sa unix.Sockaddr) error {
		if err := unix.Bind(fd, sa); err != nil {
			return os.NewSyscallError("bind", err)
		}
		if err := unix.Listen(fd, 4096); err != nil {
			return os.NewSyscallError("listen", err)
		}
		sa, err := unix.Getsockname(fd)
		switch sa := sa.(type) {
		case *unix.SockaddrInet4:
			port = uint16(sa.Port)
		case *unix.SockaddrInet6:
			port = uint16(sa.Port)
		}
		return os.NewSyscallError("getsockname", err)
	})
	if err != nil {
		return -1, 0, fmt.Errorf("tcp: listen at %v: %w", ip, err)
	}
	return fd, port, nil
}

// connect begins to call.
func connect(at netip.AddrPort) (int, error) {
	return newSocket(at, func(fd int, sa unix.Sockaddr) error {
		err := unix.Connect(fd, sa)
		if err == unix.EINPROGRESS || err == unix.EINTR {
			return nil
		}
		return os.NewSyscallError("connect", err)
	})
}

// accept takes the next connection of a listener, or fails with EAGAIN.
func accept(fd int) (int, error) {
	fd, _, err := unix.Accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	return fd, err
}

// connected tells how a call that was begun has ended.
func connected(fd int) error {
	errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	return os.NewSyscallError("connect", err)
}

// busyPoll is for how many microseconds the kernel may look at the network card itself for what a socket asks for.
const busyPoll = 50

// Bounds of what a connection holds in the kernel, in bytes, so that a peer which stops many others does not get far more from
// each than it has room for. A link is full with what it carries in one round trip, and with more nothing is faster.
const (
	mostUnsent = 1 << 20 // at the sender, beyond what is on its way
	mostUnread = 2 << 20 // at the receiver, and on the way there, until the kernel finds that a program reads faster
)

// tune sets what a connection needs. Buffers are left to the kernel, which fits them to the way, unless window is not 0; and
// but for the sender's where the way does not leave the machine and the kernel allows it.
func tune(fd int, timeout time.Duration, window int) error {
	// Idle for a third of the limit, then probes a second or more apart until it has passed.
	seconds := max(3, int(timeout/time.Second))
	idle, step := seconds/3, max(1, seconds/6)
	for _, o := range []struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, idle},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, step},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, max(1, (seconds-idle)/step)},
		{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, mostUnsent},
		{unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, mostUnread},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	sending, receiving := window, window
	if window == 0 && within(fd) && homeFits() {
		sending = home
	}
	for _, o := range []struct{ name, bytes int }{{unix.SO_SNDBUF, sending}, {unix.SO_RCVBUF, receiving}} {
		if o.bytes == 0 {
			continue
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.name, o.bytes); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	// Only privileged processes may raise it, and kernels may lack it: a faster way where there is one.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BUSY_POLL, busyPoll)
	return nil
}

// home is the size of the sender's buffer within one machine, within the bound above, as the kernel takes twice what it is told.
// There is no way to fit it to, and where it is fixed messages of 4 MiB are a tenth faster at least: the kernel's own fits itself
// to the copying, which moves with it. The receiver's is not fixed, though that can gain as much again: from one that cannot grow
// the kernel drops what small messages have filled it with too much, and the sender repeats that only when its timer ends, which
// has doubled meanwhile as often as it did in vain.
const home = mostUnsent / 2

// homeFits tells whether the kernel allows this size. It would take a smaller one without a word, and keep to it.
var homeFits = sync.OnceValue(func() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, home); err != nil {
		return false
	}
	got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	return err == nil && got >= 2*home
})

// within tells whether a connection has both ends at the same address.
func within(fd int) bool {
	here, err1 := unix.Getsockname(fd)
	there, err2 := unix.Getpeername(fd)
	if err1 != nil || err2 != nil {
		return false
	}
	switch h := here.(type) {
	case *unix.SockaddrInet4:
		t, ok := there.(*unix.SockaddrInet4)
		return ok && h.Addr == t.Addr
	case *unix.SockaddrInet6:
		t, ok := there.(*unix.SockaddrInet6)
		return ok && h.Addr == t.Addr
	}
	return false
}

// quicken has the kernel acknowledge what comes at once, until something is sent: it takes a connection on which both sides speak
// for a conversation, and keeps acknowledgements back for the answer, and with them the sender's memory. A stream within one
// machine is a third slower then, since that memory has left the caches when it is used again.
func quicken(fd int) {
	// A kernel that does not know it is slower.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
}

// inspect asks how a connection does.
func inspect(fd int) (*unix.TCPInfo, error) {
	i, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return i, os.NewSyscallError("getsockopt TCP_INFO", err)
}

// silent tells whether the peer's kernel has acknowledged nothing for a time, though there was something to acknowledge and it
// was asked again.
func silent(i *unix.TCPInfo, timeout time.Duration) bool {
	asked := int(i.Retransmits) + int(i.Probes)
	return asked >= 2 && time.Duration(i.Last_ack_recv)*time.Millisecond >= timeout
}

// unsent is how many bytes the peer's kernel has not acknowledged.
func unsent(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCOUTQ) }

// shut closes a descriptor.
func shut(fd int) error { return os.NewSyscallError("close", unix.Close(fd)) }
