package coordinator

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/outbox"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// inputReceiver is on the node of rank 0, and writes the standard input of the coordinator to a
// pipe, which the rank reads.
type inputReceiver struct {
	r, w    *os.File
	pending *outbox.Writer
	send    func(*protocol.Event)
	ended   bool // the end of the input was received
}

// newInputReceiver returns an inputReceiver. The agent inherits r.
func newInputReceiver(send func(*protocol.Event)) (*inputReceiver, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open pipe for standard input: %w", err)
	}
	i := &inputReceiver{r: r, w: w, send: send}
	i.pending = outbox.New(i.write)
	// With room for one page, the kernel reports that the pipe can be written to when it is empty, so when all has been read.
	conn, err := w.SyscallConn()
	if err == nil {
		errControl := conn.Control(func(fd uintptr) { _, err = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, os.Getpagesize()) })
		err = errors.Join(errControl, err)
	}
	if err != nil {
		r.Close()
		w.Close()
		return nil, fmt.Errorf("set the size of the pipe for standard input: %w", err)
	}
	return i, nil
}

// accepts reports whether this part of the input may follow: an inputSender of the coordinator
// sends no more than the rank has room for, and nothing after the end.
func (i *inputReceiver) accepts(in *protocol.Input) bool {
	if i == nil || i.ended || in.End != (len(in.Data) == 0) || len(in.Data) > protocol.MaxInputChunk {
		return false
	}
	return i.pending.Pending()+len(in.Data) <= maxUnreadInput
}

// handle processes a part of the input that accepts has accepted. It does not wait for the rank.
func (i *inputReceiver) handle(in *protocol.Input) {
	i.ended = in.End
	i.pending.Queue(in.Data)
}

// write writes a part of the input and waits until the rank has read it. No data is the end of the input.
func (i *inputReceiver) write(data []byte) error {
	if len(data) == 0 {
		return i.w.Close()
	}
	_, err := i.w.Write(data)
	if err == nil {
		err = i.awaitRead()
	}
	taken := &protocol.InputTaken{Bytes: len(data)}
	if err != nil {
		taken = &protocol.InputTaken{Closed: true}
	}
	i.send(&protocol.Event{Kind: protocol.EventInputTaken, InputTaken: taken})
	return err
}

// awaitRead blocks until the pipe is empty. It returns an error if no process reads it any more.
func (i *inputReceiver) awaitRead() error {
	conn, err := i.w.SyscallConn()
	if err != nil {
		return err
	}
	var state error
	err = conn.Write(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(fds, 0); n == 0 || err == unix.EINTR {
			return false // the runtime waits, and calls this function again
		} else if err != nil {
			state = err
		}
		if fds[0].Revents&unix.POLLERR != 0 {
			state = unix.EPIPE
		}
		return true
	})
	return errors.Join(err, state)
}

// close ends the input.
func (i *inputReceiver) close() { i.w.Close() }

// inputSender is at the coordinator, and sends standard input to the node of rank 0.
type inputSender struct {
	send    func(*protocol.Order)
	window  int           // how many bytes may be unread
	done    chan struct{} // closed when no more input is wanted
	stopped chan struct{} // closed when standard input is not read any more

	mu      sync.Mutex
	changed sync.Cond
	unread  int
	ended   bool // done is closed
}

// sendInput starts to send standard input. The caller must call end.
func sendInput(s console.Streams, send func(*protocol.Order)) *inputSender {
	i := &inputSender{send: send, window: protocol.InputWindow, done: make(chan struct{}),
		stopped: make(chan struct{})}
	i.changed.L = &i.mu
	if s.InputIsTerminal() {
		i.window = 0 // what the rank does not read stays in the terminal, but for one line
	}
	go func() {
		defer close(i.stopped)
		s.ReadInput(protocol.MaxInputChunk, i.done, i.pass)
	}()
	return i
}

// pass sends a part of the input, or its end if data is empty. It returns when the next part may be read.
func (i *inputSender) pass(data []byte) {
	i.mu.Lock()
	i.unread += len(data)
	ended := i.ended
	i.mu.Unlock()
	if !ended {
		i.send(&protocol.Order{Input: &protocol.Input{Data: data, End: len(data) == 0}})
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.unread > i.window && !i.ended {
		i.changed.Wait()
	}
}

// sent reports whether so many bytes were sent and not acknowledged yet.
func (i *inputSender) sent(n int) bool {
	if i == nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return n >= 0 && n <= i.unread
}

// taken processes an acknowledgement of the node of rank 0.
func (i *inputSender) taken(t *protocol.InputTaken) {
	i.mu.Lock()
	i.unread -= t.Bytes
	i.changed.Broadcast()
	i.mu.Unlock()
	if t.Closed {
		i.end()
	}
}

// end stops reading the input.
func (i *inputSender) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.ended {
		i.ended = true
		close(i.done)
		i.changed.Broadcast()
	}
}
