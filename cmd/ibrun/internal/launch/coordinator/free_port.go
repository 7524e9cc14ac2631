package coordinator

import (
	"errors"
	"os"
	"syscall"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

// FreePort returns a port that is free on all interfaces. The socket that finds it does not listen, so connections to it are
// refused.
func FreePort() (int, error) {
	port, err := freePort(syscall.AF_INET6, &syscall.SockaddrInet6{})
	if errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL) { // this host has no IPv6
		port, err = freePort(syscall.AF_INET, &syscall.SockaddrInet4{})
	}
	if err != nil {
		return 0, exitcode.Errorf(exitcode.Failed, "find a free port: %w", err)
	}
	return port, nil
}

// freePort returns a port to which a socket of this family could be bound.
func freePort(family int, all syscall.Sockaddr) (port int, err error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	if family == syscall.AF_INET6 { // free for IPv4 as well
		if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0); err != nil {
			return 0, os.NewSyscallError("setsockopt", err)
		}
	}
	if err := syscall.Bind(fd, all); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	switch at, err := syscall.Getsockname(fd); at := at.(type) {
	case *syscall.SockaddrInet6:
		return at.Port, nil
	case *syscall.SockaddrInet4:
		return at.Port, nil
	default:
		return 0, os.NewSyscallError("getsockname", err)
	}
}
