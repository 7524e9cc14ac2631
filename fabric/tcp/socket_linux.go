package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func probe() error { return nil }

// sockaddr returns the address to bind or connect a socket to.
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

// newSocket makes a non-blocking socket and calls then with it and the address.
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
		return -1, errors.Join(err, closeFD(fd))
	}
	return fd, nil
}

// listen listens on an address, and returns the port that the kernel chose.
func listen(ip netip.Addr) (fd int, port uint16, err error) {
	fd, err = newSocket(netip.AddrPortFrom(ip, 0), func(fd int, sa unix.Sockaddr) error {
		if err := unix.Bind(fd, sa); err != nil {
			return os.NewSyscallError("bind", err)
		}
		if err := unix.Listen(fd, 4096); err != nil {
			return os.NewSyscallError("listen", err)
		}
		sa, err := unix.Getsockname(fd)
		port = addrPortOf(sa).Port()
		return os.NewSyscallError("getsockname", err)
	})
	if err != nil {
		return -1, 0, fmt.Errorf("tcp: listen on %v: %w", ip, err)
	}
	return fd, port, nil
}

// connect begins to connect a new socket.
func connect(at netip.AddrPort) (int, error) {
	return newSocket(at, func(fd int, sa unix.Sockaddr) error {
		err := unix.Connect(fd, sa)
		if err == unix.EINPROGRESS || err == unix.EINTR {
			return nil
		}
		return os.NewSyscallError("connect", err)
	})
}

// accept accepts the next connection of a listener, and returns from where it comes, or EAGAIN.
func accept(listener int) (fd int, from netip.Addr, err error) {
	fd, sa, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	return fd, addrPortOf(sa).Addr(), err
}

// connectResult returns the error of a connect that has completed, or nil.
func connectResult(fd int) error {
	errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	return os.NewSyscallError("connect", err)
}

// remoteIP returns the address of the other end of a connection. It is not valid if the connection has ended.
func remoteIP(fd int) netip.Addr {
	sa, _ := unix.Getpeername(fd)
	return addrPortOf(sa).Addr()
}

// endsOf returns the ends of a connection. client says which side this process is.
func endsOf(fd int, client bool) ends {
	here, _ := unix.Getsockname(fd)
	there, _ := unix.Getpeername(fd) // neither address is valid after an error
	if client {
		return newEnds(addrPortOf(here), addrPortOf(there))
	}
	return newEnds(addrPortOf(there), addrPortOf(here))
}

// sameHost reports whether both ends of a connection have the same address.
func sameHost(fd int) bool { return endsOf(fd, true) != ends{} }

// addrPortOf returns the address and the port of a socket address. They are not valid if there is none.
func addrPortOf(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(sa.Addr)
		if sa.ZoneId != 0 {
			ip = ip.WithZone(strconv.Itoa(int(sa.ZoneId)))
		}
		return netip.AddrPortFrom(ip, uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// closeFD closes a descriptor.
func closeFD(fd int) error { return os.NewSyscallError("close", unix.Close(fd)) }
