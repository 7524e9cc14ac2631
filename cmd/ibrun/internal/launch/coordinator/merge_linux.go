package coordinator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/output"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// mergedOutput is at the coordinator, and writes the output of all nodes to the standard output and
// error of this ibrun. Each stream of a node has a goroutine of its own, which waits while the
// stream is not accepted. It delays nothing else.
type mergedOutput struct {
	merger   *output.Merger
	local    [2]*os.File      // what the agent of this node writes to, until started is called
	queues   [][2]*chunkQueue // by node; nil for that of the coordinator
	origins  []*output.Origin // by node
	lost     chan lostOutput
	finished chan struct{} // closed when everything was written, or is lost
}

// lostOutput is the reason why a stream of a node cannot be written.
type lostOutput struct {
	node   int
	stream int // as in protocol.EventOutput
	err    error
}

// mergeOutput starts to merge the output of these nodes. alone means that the job has only one rank. ack sends a node what became
// of its output.
func mergeOutput(s console.Streams, nodes []*node, alone bool, ack func(*node, *protocol.OutputAck)) (*mergedOutput, error) {
	m := &mergedOutput{merger: output.New(s.Out, s.Err, alone), queues: make([][2]*chunkQueue, len(nodes)),
		lost: make(chan lostOutput, 2*len(nodes)), finished: make(chan struct{})}
	var pipes [2]*os.File
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			for k := range i {
				pipes[k].Close()
				m.local[k].Close()
			}
			return nil, fmt.Errorf("open pipe for output: %w", err)
		}
		pipes[i], m.local[i] = r, w
	}
	for _, n := range nodes {
		origin := output.NewNode(n.ranks, n.name)
		m.origins = append(m.origins, origin)
		for i, w := range []*output.Writer{m.merger.Stdout, m.merger.Stderr} {
			source := &output.Source{Origin: origin, Pipe: pipes[i], Writer: w}
			failed := func(err error) { m.lost <- lostOutput{n.number, i + 1, err} }
			if n.number > 0 {
				q := newChunkQueue(i+1, func(a *protocol.OutputAck) { ack(n, a) })
				m.queues[n.number][i], source.Pipe = q, q
			}
			m.merger.Forward(source, failed)
		}
	}
	go func() {
		m.merger.Wait()
		m.merger.EndBar()
		close(m.finished)
	}()
	return m, nil
}

// started must be called when the agent of this node has inherited its streams.
func (m *mergedOutput) started() {
	for _, w := range m.local {
		w.Close()
	}
}

// accepts reports whether a node may send this output now.
func (m *mergedOutput) accepts(node int, e *protocol.Event) bool {
	return m != nil && node > 0 && e.Stream >= 1 && e.Stream <= 2 && len(e.Data) > 0 &&
		len(e.Data) <= protocol.MaxOutputChunk && m.queues[node][e.Stream-1].hasRoom(len(e.Data))
}

// add queues output of a node that accepts has accepted. It does not block.
func (m *mergedOutput) add(node int, e *protocol.Event) { m.queues[node][e.Stream-1].add(e.Data) }

// endNode must be called when no more output of a node follows. Unless it is complete, what was not written is dropped: the
// time for it is over, and the node has said so.
func (m *mergedOutput) endNode(node int, complete bool) {
	if m == nil || node == 0 {
		return // the agent closes its ends of the pipes
	}
	for _, q := range m.queues[node] {
		q.end(!complete)
	}
}

// busy reports whether output remains to be written.
func (m *mergedOutput) busy() bool {
	if m == nil {
		return false
	}
	select {
	case <-m.finished:
		return false
	default:
		return true
	}
}

// undelivered returns lines that say whose output was not written. Some nodes have reported that themselves.
func (m *mergedOutput) undelivered(nodes []*node) []string {
	if !m.busy() {
		return nil
	}
	var known []*output.Origin
	for _, n := range nodes {
		if n.incomplete {
			known = append(known, m.origins[n.number])
		}
	}
	return m.merger.Undelivered(known...)
}

// done returns a channel that is closed when everything was written.
func (m *mergedOutput) done() <-chan struct{} {
	if m == nil {
		return nil
	}
	return m.finished
}

// failures returns a channel of the streams that cannot be written any more.
func (m *mergedOutput) failures() <-chan lostOutput {
	if m == nil {
		return nil
	}
	return m.lost
}

// code returns the exit code for the loss of output, and the line to print. If the user has closed the reading end, the exit
// code is that of other programs, which SIGPIPE kills without words.
func (l *lostOutput) code() (code int, text string) {
	if errors.Is(l.err, unix.EPIPE) {
		return exitcode.SignalBase + int(unix.SIGPIPE), ""
	}
	return exitcode.Failed, l.err.Error()
}

// chunkQueue holds what a node has sent of one stream. It is an output.Reader, for one goroutine. It acknowledges what was read
// from it in larger parts.
type chunkQueue struct {
	stream int
	ack    func(*protocol.OutputAck)
	wake   chan struct{} // receives when one of the fields below has changed

	mu       sync.Mutex
	chunks   [][]byte
	size     int  // of chunks, and of what was read and not acknowledged
	read     int  // bytes that were read and not acknowledged
	ended    bool // no more follows
	closed   bool // nothing is read any more
	deadline time.Time
}

func newChunkQueue(stream int, ack func(*protocol.OutputAck)) *chunkQueue {
	return &chunkQueue{stream: stream, ack: ack, wake: make(chan struct{}, 1)}
}

// changed wakes the reader. The caller must hold mu.
func (q *chunkQueue) changed() {
	select {
	case q.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// hasRoom reports whether the node may send so many bytes more.
func (q *chunkQueue) hasRoom(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.ended && (q.closed || q.size+n <= protocol.OutputWindow)
}

// add appends a chunk.
func (q *chunkQueue) add(data []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return // the node has noticed it, or will
	}
	q.chunks, q.size = append(q.chunks, data), q.size+len(data)
	q.changed()
}

// end marks the end of the stream. If drop is set, what was not read is dropped.
func (q *chunkQueue) end(drop bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	if drop {
		q.chunks = nil
	}
	q.changed()
}

// Read reads what the node has sent.
func (q *chunkQueue) Read(b []byte) (int, error) {
	for {
		n, deadline, err := q.tryRead(b)
		if n > 0 || err != nil {
			return n, err
		}
		var timeout <-chan time.Time
		if !deadline.IsZero() {
			timeout = time.After(time.Until(deadline))
		}
		select {
		case <-q.wake:
		case <-timeout:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// ackBytes is how many bytes of a stream are acknowledged together.
const ackBytes = protocol.OutputWindow / 4

// tryRead is Read without waiting. It returns the deadline if there is nothing to read.
func (q *chunkQueue) tryRead(b []byte) (n int, deadline time.Time, err error) {
	q.mu.Lock()
	for n < len(b) && len(q.chunks) > 0 {
		k := copy(b[n:], q.chunks[0])
		n += k
		if q.chunks[0] = q.chunks[0][k:]; len(q.chunks[0]) == 0 {
			q.chunks = slices.Delete(q.chunks, 0, 1)
		}
	}
	q.read += n
	acked := 0
	if q.read >= ackBytes {
		acked, q.read = q.read, 0
		q.size -= acked
	}
	switch {
	case n > 0:
	case q.closed:
		err = os.ErrClosed
	case q.ended:
		err = io.EOF
	}
	deadline, ended := q.deadline, q.ended
	q.mu.Unlock()
	if acked > 0 && !ended {
		q.ack(&protocol.OutputAck{Stream: q.stream, Bytes: acked})
	}
	return n, deadline, err
}

// SetReadDeadline sets the deadline of the next Read.
func (q *chunkQueue) SetReadDeadline(t time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deadline = t
	return nil
}

// Close must be called when nothing is read any more. It notifies the node, unless that has ended.
func (q *chunkQueue) Close() error {
	q.mu.Lock()
	tell := !q.closed && !q.ended
	q.closed, q.chunks = true, nil
	q.mu.Unlock()
	if tell {
		q.ack(&protocol.OutputAck{Stream: q.stream, Closed: true})
	}
	return nil
}
