package control

import (
	"fmt"
	"net"
	"time"

	"github.com/ibrun/ibrun/internal/tcpflow"
)

// flow is whether what is written to the links of a connection arrives. It knows that of TCP connections only, and only if the
// kernel tells it.
type flow struct {
	tcp   tcpflow.Flow
	begun bool // tcp has begun with the current link
}

// begin begins a link, after its handshake.
func (f *flow) begin(raw net.Conn, now time.Time) {
	f.begun = false
	if s := sampleOf(raw); s != nil {
		f.tcp.Begin(s, now)
		f.begun = true
	}
}

// stalled returns for how long nothing that was written has arrived; 0 if it does, if anything has in the last time called
// quiet, or if that is not known. If nothing was known when the link began, the first sample counts as its beginning.
func (f *flow) stalled(raw net.Conn, now time.Time, quiet time.Duration) time.Duration {
	if !f.begun {
		f.begin(raw, now)
		return 0
	}
	s := sampleOf(raw)
	if s == nil {
		return 0
	}
	return f.tcp.Observe(s, now, quiet)
}

// again reports whether the link was made since nothing arrives.
func (f *flow) again() bool { return f.tcp.Again() }

// skip leaves out a time d before now in which this process was stopped.
func (f *flow) skip(d time.Duration, now time.Time) { f.tcp.Skip(d, now) }

// pause leaves out the time until now.
func (f *flow) pause(now time.Time) { f.tcp.Pause(now) }

// cause returns why nothing arrives.
func (f *flow) cause() error { return f.tcp.Cause() }

// explainStall adds the reason to the error of a handshake that began at that time, if what this side has sent does not arrive.
func explainStall(raw net.Conn, began time.Time, err error) error {
	if s := sampleOf(raw); s != nil && s.Stalls(time.Since(began)) {
		return fmt.Errorf("%w: %w", err, s.Cause())
	}
	return err
}

// sampleOf returns a sample of the TCP connection of a link. It returns nil if the link is not a
// TCP connection, or if the kernel cannot tell: some kernels have no SIOCOUTQ, and a link works
// without samples. That the connection is closed is found by the next read of it.
func sampleOf(raw net.Conn) (s *tcpflow.Sample) {
	tcp, ok := innermost(raw).(*net.TCPConn)
	if !ok {
		return nil
	}
	conn, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	err = conn.Control(func(fd uintptr) {
		if read, errRead := tcpflow.Read(int(fd)); errRead == nil {
			s = read
		}
	})
	if err != nil {
		return nil
	}
	return s
}
