package coordinator

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// outputForwarder sends what is written on this node to the coordinator. The agent and ibrun itself
// write to pipes, as if the coordinator's standard output and error were theirs. While the
// coordinator does not take the output, they wait in their writes.
type outputForwarder struct {
	streams [2]*forwardedStream // standard output and standard error
	own     console.Streams     // those of this ibrun, for lines after the end

	mu    sync.Mutex // held while a line of ibrun is written
	ended bool       // further lines of ibrun go to own
}

// forwardedStream is one of the two streams.
type forwardedStream struct {
	number int // as in protocol.EventOutput
	r, w   *os.File
	send   func(*protocol.Event)
	sent   chan struct{} // closed when all has been read and sent

	mu      sync.Mutex
	changed sync.Cond // signalled when one of the following changes
	unacked int       // bytes that the coordinator has not acknowledged
	dropped bool      // what is read is dropped
	closed  bool      // because nothing reads that stream of the coordinator, which reports it
	lost    bool      // something was dropped that the coordinator does not know of
}

// forwardOutput starts to send output to the coordinator. The caller uses the streams that it
// returns, and calls end.
func forwardOutput(send func(*protocol.Event), own console.Streams, host string) (*outputForwarder, console.Streams, error) {
	f := &outputForwarder{own: own}
	for i := range f.streams {
		r, w, err := os.Pipe()
		if err != nil {
			if i > 0 {
				f.streams[0].w.Close() // ends run
			}
			return nil, own, fmt.Errorf("open pipe for output: %w", err)
		}
		s := &forwardedStream{number: i + 1, r: r, w: w, send: send, sent: make(chan struct{})}
		s.changed.L = &s.mu
		f.streams[i] = s
		go s.run()
	}
	s := own // but for the files, messages are printed there as here
	s.Out, s.Err, s.Host = f.streams[0].w, f.streams[1].w, host
	return f, s.AsyncTo(f.writeLine), nil
}

// writeLine writes lines of this ibrun.
func (f *outputForwarder) writeLine(text []byte) error {
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		return console.WriteAll(f.own.Err, text)
	}
	defer f.mu.Unlock()
	return console.WriteAll(f.streams[1].w, text)
}

// sent reports whether what the coordinator acknowledges was sent and not acknowledged yet.
func (f *forwardedStreams) sent(a *protocol.OutputAck) bool {
	if f == nil || a.Stream < 1 || a.Stream > len(f.output.streams) {
		return false
	}
	s := f.output.streams[a.Stream-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.Bytes >= 0 && a.Bytes <= s.unacked
}

// handle processes an acknowledgement or the end of a stream from the coordinator.
func (f *outputForwarder) handle(a *protocol.OutputAck) {
	s := f.streams[a.Stream-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unacked -= a.Bytes
	if a.Closed {
		s.dropped, s.closed = true, true
		// Those who write to it get an error, as if they wrote to that stream of the coordinator.
		s.r.Close()
	}
	s.changed.Broadcast()
}

// drop makes everything that is written from now on be read and dropped, because there is no use for it.
func (f *outputForwarder) drop() {
	for _, s := range f.streams {
		s.mu.Lock()
		s.dropped = true
		s.changed.Broadcast()
		s.mu.Unlock()
	}
}

// end sends the rest of the output. The agent has written all of its output before. end blocks until the rest was sent, or drop
// was called. It reports whether everything was sent. Lines of ibrun that follow go to its own standard error.
func (f *outputForwarder) end() (complete bool) {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	complete = true
	for _, s := range f.streams {
		_ = s.r.SetReadDeadline(time.Now()) // if it is closed, nothing more can be read
		<-s.sent
		s.mu.Lock()
		complete = complete && !s.lost
		s.mu.Unlock()
		s.r.Close()
		s.w.Close()
	}
	return complete
}

// run reads the pipe and sends what it reads, until the end is requested and the pipe is empty.
func (s *forwardedStream) run() {
	defer close(s.sent)
	buf := make([]byte, protocol.MaxOutputChunk)
	for {
		s.awaitRoom()
		n, err := s.r.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			n, err = s.readNow(buf)
		}
		if n > 0 {
			s.forward(buf[:n])
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// readNow reads from the pipe without waiting. It returns 0 if the pipe is empty.
func (s *forwardedStream) readNow(buf []byte) (n int, err error) {
	conn, err := s.r.SyscallConn()
	if err != nil {
		return 0, err
	}
	errControl := conn.Control(func(fd uintptr) {
		for {
			if n, err = unix.Read(int(fd), buf); err != unix.EINTR {
				return
			}
		}
	})
	if err == unix.EAGAIN {
		return 0, nil
	}
	return max(n, 0), errors.Join(errControl, err)
}

// awaitRoom blocks until another chunk may be sent.
func (s *forwardedStream) awaitRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.unacked+protocol.MaxOutputChunk > protocol.OutputWindow && !s.dropped {
		s.changed.Wait()
	}
}

// forward sends a chunk.
func (s *forwardedStream) forward(data []byte) {
	s.mu.Lock()
	dropped := s.dropped
	s.lost = s.lost || dropped && !s.closed
	s.unacked += len(data)
	s.mu.Unlock()
	if !dropped {
		s.send(&protocol.Event{Kind: protocol.EventOutput, Stream: s.number, Data: data})
	}
}

// forwardedStreams are the standard streams of a node whose output is written by the coordinator.
type forwardedStreams struct {
	output *outputForwarder
	input  *inputReceiver // nil: rank 0 runs elsewhere

	// These belong to the goroutine of the worker.
	timeout time.Duration // how long the rest of the output may take; 0: no limit
	ending  bool          // end was called, or will be
}

// forwardStreams returns the streams that the processes of this node use, and nil if they are this ibrun's own. The caller must
// call started when the agent has inherited them, and close.
func forwardStreams(cl *Cluster, t *protocol.Task, own console.Streams) (*forwardedStreams, console.Streams, error) {
	if cl.Job.Forwarding == nil {
		return nil, own, nil
	}
	var f forwardedStreams
	var err error
	in := (*os.File)(nil)
	if t.LocalIndex(0) < 0 {
		in, err = os.Open(os.DevNull)
	} else if f.input, err = newInputReceiver(cl.sendEvent); err == nil {
		in = f.input.r
	}
	if err != nil {
		return nil, own, err
	}
	s := own
	if f.output, s, err = forwardOutput(cl.sendEvent, own, t.Host); err != nil {
		return nil, own, err
	}
	s.In, t.ShowPartial = in, cl.Job.Forwarding.Terminals
	return &f, s, nil
}

// started closes this ibrun's end of what the agent has inherited as standard input.
func (f *forwardedStreams) started(s console.Streams) {
	if f != nil {
		s.In.Close()
	}
}

// handle processes an order about the streams, which was checked. It does not block.
func (f *forwardedStreams) handle(o *protocol.Order) {
	if o.OutputAck != nil {
		f.output.handle(o.OutputAck)
		return
	}
	f.input.handle(o.Input)
}

// limit sets how long the rest of the output may take after the ranks have exited; 0: no limit.
func (f *forwardedStreams) limit(timeout time.Duration) {
	if f == nil {
		return
	}
	if f.timeout = timeout; f.ending && timeout > 0 {
		time.AfterFunc(timeout, f.output.drop)
	}
}

// beginEnd must be called when the ranks have exited. If their output is incomplete, there is no more time for it.
func (f *forwardedStreams) beginEnd(incomplete bool) {
	if f == nil {
		return
	}
	f.ending = true
	if f.limit(f.timeout); incomplete {
		f.output.drop()
	}
}

// end sends the rest of the output, and reports whether everything was sent.
func (f *forwardedStreams) end() (complete bool) { return f == nil || f.output.end() }

// drop drops output from now on.
func (f *forwardedStreams) drop() {
	if f != nil {
		f.output.drop()
	}
}

// close ends both directions, and drops what was not sent.
func (f *forwardedStreams) close() {
	if f == nil {
		return
	}
	f.output.drop()
	if f.input != nil {
		f.input.close()
	}
}
