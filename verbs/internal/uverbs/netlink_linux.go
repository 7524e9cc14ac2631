package uverbs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Find asks the kernel for a device by the name it has in /sys/class/infiniband, and returns what [Open] needs, the driver's
// number included. ENODEV says that this network namespace has no such device. It needs Linux 5.1.
func Find(name string) (Device, error) { return find(name, ask) }

// answerBytes is more than the kernel puts into one datagram.
const answerBytes = 64 << 10

// ask has a socket for one request: whatever comes on it is the answer.
func ask(request []byte, got func(attrs) bool) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err == unix.EPROTONOSUPPORT {
		return fmt.Errorf("the kernel has no RDMA, or its module ib_core is not loaded: %w", err)
	}
	if err != nil {
		return fmt.Errorf("netlink socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink request: %w", err)
	}
	b := make([]byte, answerBytes)
	for {
		n, err := retry(func() (int, error) { n, _, err := unix.Recvfrom(fd, b, 0); return n, err })
		if err != nil {
			return fmt.Errorf("netlink answer: %w", err)
		}
		if done, err := answers(b[:n], got); done || err != nil {
			return err
		}
	}
}
