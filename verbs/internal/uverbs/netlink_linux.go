package uverbs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Find queries the kernel for the device with a name of /sys/class/infiniband, and returns what [Open] needs, including the
// driver's number. The error ENODEV means that this network namespace has no such device. Find needs Linux 5.1.
func Find(name string) (Device, error) { return find(name, sendRequest) }

// maxReplyBytes is larger than any datagram of the kernel.
const maxReplyBytes = 64 << 10

// sendRequest opens a socket for one request: everything received on it is a reply.
func sendRequest(request []byte, got func(attrs) bool) error {
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
	b := make([]byte, maxReplyBytes)
	for {
		n, err := retry(func() (int, error) { n, _, err := unix.Recvfrom(fd, b, 0); return n, err })
		if err != nil {
			return fmt.Errorf("netlink reply: %w", err)
		}
		if done, err := handleReplies(b[:n], got); done || err != nil {
			return err
		}
	}
}
