package tcp

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// busyPoll is for how many microseconds a receive may make the kernel poll the network card.
const busyPoll = 50

// Limits of what a connection holds in the kernel, in bytes. So a peer that stops reading from many others does not hold far more
// of each than it has room for. A link is full with what it carries in one round trip, and more makes nothing faster.
const (
	maxUnsent = 1 << 20 // at the sender, beyond what is in flight
	maxUnread = 2 << 20 // at the receiver and in flight, until the kernel finds that the program reads faster
)

// localCongestionControl is the congestion control of a connection within one machine: the one that every kernel has. There
// is no path to share with others. BBR limits what is in flight there. With BBR, streams of messages of 64 KiB had half of the
// bandwidth, those of 256 KiB a third, and those of 4 MiB two thirds.
const localCongestionControl = "reno"

// maxRetransmitInterval is the longest time between two retransmissions. It is the shortest that the kernel allows.
const maxRetransmitInterval = time.Second

// maxProbes is the most that the kernel allows of TCP_KEEPCNT.
const maxProbes = 127

// setOptions sets the options of a connection. Sizes of buffers are left to the kernel, which adapts them to the path, unless
// socketBuffer is not 0. An exception is the send buffer of a connection within the machine, if the kernel allows
// localSendBuffer.
func setOptions(fd int, timeout time.Duration, socketBuffer int) error {
	// Keepalive probes begin after a fifth of the timeout, and are repeated every second. The kernel does not give up before the
	// timeout has passed: that is decided by checkResponds.
	seconds := max(3, int(timeout/time.Second))
	idle := max(1, seconds/5)
	for _, o := range []struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, idle},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, min(seconds, maxProbes)},
		{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent},
		{unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, maxUnread},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	local := sameHost(fd)
	if local {
		// This is optional: net.ipv4.tcp_allowed_congestion_control need not contain it.
		_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, localCongestionControl)
	}
	sendBuffer, receiveBuffer := socketBuffer, socketBuffer
	if socketBuffer == 0 && local && localSendBufferAllowed() {
		sendBuffer = localSendBuffer
	}
	for _, o := range []struct{ name, bytes int }{{unix.SO_SNDBUF, sendBuffer}, {unix.SO_RCVBUF, receiveBuffer}} {
		if o.bytes == 0 {
			continue
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.name, o.bytes); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	// This is optional: only privileged processes may raise it, and kernels may lack it.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BUSY_POLL, busyPoll)
	// By default the time between retransmissions doubles without a limit, so a network that loses packets makes a connection
	// silent for longer than the timeout. Both are optional: the first needs Linux 6.15, the second holds for six
	// retransmissions of little data.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, int(maxRetransmitInterval/time.Millisecond))
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS, 1)
	return nil
}

// localSendBuffer is the size of the send buffer of a connection within one machine. It keeps to maxUnsent, as the kernel doubles
// the size. There is no path to adapt to, and with a fixed size messages of 4 MiB are at least a tenth faster: the kernel's own
// size adapts to the copying, which it influences itself. The receive buffer is not fixed, although that can gain as much again.
// If it cannot grow, the kernel drops data when small messages have filled it with overhead. The sender retransmits such data
// only when its timer expires, and the timer doubles with each retransmission in vain.
const localSendBuffer = maxUnsent / 2

// localSendBufferAllowed reports whether the kernel allows this size. The kernel would silently use a smaller one, and would not
// adapt it any more.
var localSendBufferAllowed = sync.OnceValue(func() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, localSendBuffer); err != nil {
		return false
	}
	got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	return err == nil && got >= 2*localSendBuffer
})

// requestQuickAck makes the kernel acknowledge input immediately, until something is sent. By default the kernel considers a
// connection with traffic in both directions interactive, and delays acknowledgements until the answer. That keeps the sender's
// memory occupied. A stream within one machine is a third slower then, since that memory has left the caches when it is used
// again.
func requestQuickAck(fd int) {
	// This is optional: it is only slower on a kernel that does not support it.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
}
