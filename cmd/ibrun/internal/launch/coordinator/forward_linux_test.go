package coordinator

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// forwardedJob is the output of a job: that of node 0, and of other nodes, which are in this process as well. Messages between
// them are encoded and decoded.
type forwardedJob struct {
	t      *testing.T
	merged *mergedOutput
	nodes  []*node
	far    []*outputForwarder // by node; nil for node 0
	output []console.Streams  // by node: what its processes write to
	orders sync.WaitGroup     // acknowledgements on their way
}

// newForwardedJob returns a job on n nodes whose output is written to two files.
func newForwardedJob(t *testing.T, n int, stdout, stderr *os.File) *forwardedJob {
	t.Helper()
	j := &forwardedJob{t: t, far: make([]*outputForwarder, n), output: make([]console.Streams, n)}
	for i := range n {
		j.nodes = append(j.nodes, &node{number: i, name: fmt.Sprintf("n%d", i), ranks: []int{i}})
	}
	ack := func(n *node, a *protocol.OutputAck) {
		text, err := json.Marshal(&protocol.Order{OutputAck: a})
		if err != nil {
			t.Error(err)
		}
		o, err := decodeOrder(text)
		if err != nil {
			t.Error(err)
		}
		j.orders.Go(func() {
			far := &forwardedStreams{output: j.far[n.number]}
			if !far.sent(o.OutputAck) {
				t.Errorf("node %d refuses %s", n.number, text)
			}
			far.handle(o)
		})
	}
	var err error
	if j.merged, err = mergeOutput(console.Streams{Out: stdout, Err: stderr}, j.nodes, false, ack); err != nil {
		t.Fatal(err)
	}
	j.output[0] = console.Streams{Out: j.merged.local[0], Err: j.merged.local[1]}
	for i := 1; i < n; i++ {
		j.nodes[i].output = j.merged
		send := func(e *protocol.Event) {
			text, err := json.Marshal(e)
			if err != nil {
				t.Error(err)
			}
			if e, err = decodeEvent(text); err == nil {
				err = j.nodes[i].checkEvent(e)
			}
			if err != nil {
				t.Errorf("node %d: %v", i, err)
				return
			}
			j.merged.add(i, e)
		}
		if j.far[i], j.output[i], err = forwardOutput(send, console.Streams{Err: stderr}, j.nodes[i].name); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// end ends the output of all nodes, and waits until it is written.
func (j *forwardedJob) end() {
	j.t.Helper()
	j.merged.started()
	for i := 1; i < len(j.far); i++ {
		if !j.far[i].end() {
			j.t.Errorf("node %d: output was lost", i)
		}
		j.merged.endNode(i, true)
	}
	waittest.Receive(j.t, "all output is written", j.merged.done())
	j.orders.Wait()
}

// testFile returns an empty file.
func testFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// text returns what a file contains.
func text(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// waitForText waits until a file contains a text.
func waitForText(t *testing.T, f *os.File, want string) {
	t.Helper()
	waittest.UntilNil(t, "the output", func() error {
		if got := text(t, f); got != want {
			return fmt.Errorf("%q was written, want %q", got, want)
		}
		return nil
	})
}

// pipeEnds returns both ends of a pipe.
func pipeEnds(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

// Binary output, and output that does not end in a newline, arrives unchanged. The order within a stream is kept, and ibrun's
// own lines name the node.
func TestForwardedOutput(t *testing.T) {
	stdout, stderr := testFile(t), testFile(t)
	j := newForwardedJob(t, 2, stdout, stderr)
	binary := strings.Repeat("\x00\xff\n\r\n\x01", 1<<16)
	if _, err := j.output[1].Out.WriteString(binary + "the end"); err != nil {
		t.Fatal(err)
	}
	if _, err := j.output[1].Err.WriteString("rank 1 is here\n"); err != nil {
		t.Fatal(err)
	}
	j.output[1].Info("it is 1", console.Attrs{})
	j.output[1].Flush()
	j.end()
	if got := text(t, stdout); got != binary+"the end" {
		t.Errorf("%d bytes of standard output, or others; want %d", len(got), len(binary)+len("the end"))
	}
	j.output[1].Info("after the end", console.Attrs{})
	j.output[1].Flush()
	const want = "rank 1 is here\nibrun on n1: it is 1\nibrun on n1: after the end\n"
	if got := text(t, stderr); got != want {
		t.Errorf("standard error is %q, want %q", got, want)
	}
}

// Lines of many nodes, of which node 0 is one, stay whole.
func TestForwardedLines(t *testing.T) {
	const nodes, lines = 64, 30
	stdout := testFile(t)
	j := newForwardedJob(t, nodes, stdout, stdout)
	var all sync.WaitGroup
	for i, s := range j.output {
		all.Go(func() {
			letter := string(rune('0' + i))
			for k := range lines {
				line := strings.Repeat(letter, 1+(i+k*k*7)%3000)
				for _, part := range []string{line[:len(line)/2], line[len(line)/2:] + "\n"} {
					if _, err := s.Out.WriteString(part); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	j.end()
	count := 0
	for line := range strings.Lines(text(t, stdout)) {
		count++
		if line = strings.TrimSuffix(line, "\n"); strings.Trim(line, line[:1]) != "" {
			t.Fatalf("a line of %d bytes has output of two nodes: %.20q...", len(line), strings.TrimLeft(line, line[:1]))
		}
	}
	if count != nodes*lines {
		t.Errorf("%d lines were written, %d arrived", nodes*lines, count)
	}
}

// A reader that is slow slows the node, and what is on the way is bounded: the test fails in checkEvent otherwise. Meanwhile the
// output of another stream passes.
func TestForwardedToSlowReader(t *testing.T) {
	total := soaktest.Choose(100<<20, 8<<20)
	r, w := pipeEnds(t)
	stderr := testFile(t)
	j := newForwardedJob(t, 2, w, stderr)
	sent := sha256.New()
	written := make(chan struct{})
	var count sync.Mutex
	bytesWritten := 0
	go func() {
		defer close(written)
		chunk := bytes.Repeat([]byte("0123456789abcde\n"), 1<<10)
		for n := 0; n < total; n += len(chunk) {
			chunk[0] = byte(n >> 14)
			sent.Write(chunk)
			if _, err := j.output[1].Out.Write(chunk); err != nil {
				t.Error(err)
			}
			count.Lock()
			bytesWritten += len(chunk)
			count.Unlock()
		}
	}()
	// Nothing is read yet: the writer gets no further than the window and the buffers, and standard error passes.
	if _, err := j.output[1].Err.WriteString("passes\n"); err != nil {
		t.Fatal(err)
	}
	waitForText(t, stderr, "passes\n")
	count.Lock()
	if most := protocol.OutputWindow + 512<<10; bytesWritten > most {
		t.Errorf("the node has written %d bytes that nobody reads, more than %d", bytesWritten, most)
	}
	count.Unlock()
	got := sha256.New()
	if _, err := io.CopyN(got, r, int64(total)); err != nil {
		t.Fatal(err)
	}
	<-written
	j.end()
	if !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
		t.Error("other bytes arrived")
	}
}

// What a node that dies has sent is written, and its unfinished line is ended before a line of another node.
func TestForwardedByDyingNode(t *testing.T) {
	stdout := testFile(t)
	j := newForwardedJob(t, 3, stdout, stdout)
	if _, err := j.output[1].Out.WriteString("one\nhalf a li"); err != nil {
		t.Fatal(err)
	}
	waitForText(t, stdout, "one\n")
	j.merged.endNode(1, true) // the connection is lost
	waitForText(t, stdout, "one\nhalf a li")
	if _, err := j.output[2].Out.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	j.far[1].drop()
	j.end()
	if got, want := text(t, stdout), "one\nhalf a li\ntwo\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// unackedBytes returns how many bytes node 0 has not acknowledged.
func (s *forwardedStream) unackedBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unacked
}

// If the user closes the reading end, the writes of all nodes fail, and the exit code is that of SIGPIPE.
func TestForwardedToClosedReader(t *testing.T) {
	r, w := pipeEnds(t)
	r.Close()
	j := newForwardedJob(t, 2, w, testFile(t))
	j.merged.started()
	for {
		if _, err := j.output[1].Out.WriteString("hello\n"); err != nil {
			if !errors.Is(err, unix.EPIPE) {
				t.Errorf("the write failed with %v, want EPIPE", err)
			}
			break
		}
	}
	l := <-j.merged.failures()
	if code, why := l.code(); l.node != 1 || l.stream != 1 || code != 141 || why != "" {
		t.Errorf("%+v: code %d, %q", l, code, why)
	}
	j.end()
}

// A chunk that was read before the stream was closed is not reported as lost by its node: node 0 reports that nothing reads it.
func TestForwardedWhileClosing(t *testing.T) {
	send := func(*protocol.Event) { t.Error("sent after the stream was closed") }
	f, s, err := forwardOutput(send, console.Streams{Err: testFile(t)}, "n1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Flush()
	f.handle(&protocol.OutputAck{Stream: 1, Closed: true})
	f.streams[0].forward([]byte("hello\n"))
	if !f.end() {
		t.Error("output was lost")
	}
}

// A reader that has stopped does not delay the end of the job any longer than the time-outs.
func TestForwardedToStoppedReader(t *testing.T) {
	_, w := pipeEnds(t)
	j := newForwardedJob(t, 2, w, testFile(t))
	j.merged.started()
	go func() {
		for {
			if _, err := j.output[1].Out.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}()
	waittest.Until(t, "the window is full", func() bool {
		return j.far[1].streams[0].unackedBytes() > protocol.OutputWindow-protocol.MaxOutputChunk
	})
	waittest.Until(t, "more is in the pipe", func() bool { return unreadBytes(t, j.far[1].streams[0].r) > 0 })
	j.far[1].drop()
	if j.far[1].end() {
		t.Error("the node does not know that output was lost")
	}
	j.merged.endNode(1, true)
	const want = "the output of rank 1 on n1 is incomplete: ibrun's standard output did not accept it"
	waittest.Until(t, "output is not written", func() bool { return len(j.merged.undelivered(j.nodes)) != 0 })
	if got := j.merged.undelivered(j.nodes); !j.merged.busy() || len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	j.nodes[1].incomplete = true // it has said so itself
	if got := j.merged.undelivered(j.nodes); len(got) != 0 {
		t.Errorf("said twice: %q", got)
	}
}

// unreadBytes returns how many bytes are in a pipe.
func unreadBytes(t *testing.T, r *os.File) (n int) {
	t.Helper()
	conn, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// A node that sends more than allowed, or output of no stream, does not follow the protocol.
func TestForwardedTooMuch(t *testing.T) {
	_, w := pipeEnds(t)
	j := newForwardedJob(t, 2, w, testFile(t))
	event := func(stream, n int) *protocol.Event {
		return &protocol.Event{Kind: protocol.EventOutput, Stream: stream, Data: make([]byte, n)}
	}
	for _, e := range []*protocol.Event{event(0, 1), event(3, 1), event(-1, 1), event(1, 0), event(2, protocol.MaxOutputChunk+1)} {
		if j.nodes[1].checkEvent(e) == nil {
			t.Errorf("stream %d, %d bytes: accepted", e.Stream, len(e.Data))
		}
	}
	if (&node{number: 1}).checkEvent(event(1, 1)) == nil {
		t.Error("output of a node that does not forward it was accepted")
	}
	sent := 0
	for e := event(1, protocol.MaxOutputChunk); j.nodes[1].checkEvent(e) == nil; sent += len(e.Data) {
		j.merged.add(1, e)
		if sent > 2*protocol.OutputWindow {
			t.Fatal("without limit")
		}
	}
	if sent < protocol.OutputWindow {
		t.Errorf("only %d bytes were accepted", sent)
	}
	j.merged.endNode(1, false)
	if j.nodes[1].checkEvent(event(1, 1)) == nil {
		t.Error("output after the end was accepted")
	}
}
