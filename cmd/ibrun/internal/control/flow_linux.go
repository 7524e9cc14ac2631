package control

import (
	"fmt"
	"net"
	"time"

	"github.com/ibrun/ibrun/internal/tcpflow"
)

// flow is whether what is written to the links of a connection arrives. It knows that of TCP connections only.
type flow struct{ tcp tcpflow.Flow }

// begin begins a link, after its handshake.
func (f *flow) begin(raw net.Conn, now time.Time) error {
	s, err := sampleOf(raw)
	if s != nil {
		f.tcp.Begin(s, now)
	}
	return err
}

// stalled returns for how long nothing that was written has arrived; 0 if it does, or if anything has in the last time called
// quiet.
func (f *flow) stalled(raw net.Conn, now time.Time, quiet time.Duration) (time.Duration, error) {
	s, err := sampleOf(raw)
	if s == nil {
		return 0, err
	}
	return f.tcp.Observe(s, now, quiet), nil
}

// again reports whether the link was made since nothing arrives.
func (f *flow) again() bool { return f.tcp.Again() }

// skip leaves out a time in which this process was stopped.
func (f *flow) skip(d time.Duration) { f.tcp.Skip(d) }

// pause leaves out the time until now.
func (f *flow) pause(now time.Time) { f.tcp.Pause(now) }

// cause returns why nothing arrives.
func (f *flow) cause() error { return f.tcp.Cause() }

// explainStall adds the reason to the error of a handshake that began at that time, if what this side has sent does not arrive.
func explainStall(raw net.Conn, began time.Time, err error) error {
	if s, errSample := sampleOf(raw); errSample == nil && s != nil && s.Stalls(time.Since(began)) {
		return fmt.Errorf("%w: %w", err, s.Cause())
	}
	return err
}

// sampleOf returns a sample of the TCP connection of a link; nil if it is none.
func sampleOf(raw net.Conn) (s *tcpflow.Sample, err error) {
	tcp, ok := innermost(raw).(*net.TCPConn)
	if !ok {
		return nil, nil
	}
	conn, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	var errRead error
	err = conn.Control(func(fd uintptr) { s, errRead = tcpflow.Read(int(fd)) })
	if err == nil {
		err = errRead
	}
	return s, err
}
