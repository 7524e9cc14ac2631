package coordinator

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/waittest"
)

// inputPair is the standard input of node 0 and the rank that reads it.
type inputPair struct {
	sender   *inputSender
	receiver *inputReceiver
	sent     chan int // receives the length of each part that was sent
}

// newInputPair forwards a file.
func newInputPair(t *testing.T, in *os.File) *inputPair {
	t.Helper()
	p := &inputPair{sent: make(chan int, 1<<16)}
	var err error
	p.receiver, err = newInputReceiver(func(e *protocol.Event) {
		n := &node{number: 1, ranks: []int{0}, input: p.sender}
		if err := n.checkEvent(e); err != nil {
			t.Error(err)
		}
		p.sender.taken(e.InputTaken)
	})
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	p.sender = sendInput(console.Streams{In: in}, func(o *protocol.Order) {
		<-ready
		p.sent <- len(o.Input.Data)
		if !p.receiver.accepts(o.Input) {
			t.Errorf("%d bytes of input are refused", len(o.Input.Data))
		}
		p.receiver.handle(o.Input)
	})
	close(ready)
	t.Cleanup(func() {
		p.sender.end()
		<-p.sender.stopped // the file is closed next
		p.receiver.close()
		p.receiver.r.Close()
	})
	return p
}

// Standard input arrives complete, with its end, at a rank on another node. No more is read ahead than the window.
func TestForwardedInput(t *testing.T) {
	file := testFile(t)
	want := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10)
	if _, err := file.Write(want); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	p := newInputPair(t, file)
	waittest.Until(t, "the window is full", func() bool { return p.sender.unreadBytes() > protocol.InputWindow }) // nobody reads yet
	ahead := 0
	for len(p.sent) > 0 {
		ahead += <-p.sent
	}
	if most := protocol.InputWindow + protocol.MaxInputChunk; ahead > most {
		t.Errorf("%d bytes were read ahead, more than %d", ahead, most)
	}
	if got, err := io.ReadAll(p.receiver.r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes, or others: %v", len(got), len(want), err)
	}
}

// unreadBytes returns how many bytes the rank has not read.
func (i *inputSender) unreadBytes() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.unread
}

// A part counts as taken when the rank has read all of it. When no process reads any more, no input is read either.
func TestInputTaken(t *testing.T) {
	events := make(chan *protocol.InputTaken, 1)
	r, err := newInputReceiver(func(e *protocol.Event) { events <- e.InputTaken })
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	r.handle(&protocol.Input{Data: []byte("hello")})
	b := make([]byte, 3)
	if n, err := r.r.Read(b); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	waittest.Nothing(t, 20*time.Millisecond, "taken, although two bytes are unread", events)
	if n, err := r.r.Read(b); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if e := <-events; e.Bytes != 5 || e.Closed {
		t.Errorf("got %+v", e)
	}
	r.handle(&protocol.Input{Data: []byte("never read")})
	r.r.Close()
	if e := <-events; !e.Closed {
		t.Errorf("got %+v", e)
	}
}

// The sender stops when rank 0 reads no more, also while it waits.
func TestInputNotWanted(t *testing.T) {
	in, w := pipeEnds(t)
	p := newInputPair(t, in)
	if _, err := w.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	<-p.sent
	p.receiver.r.Close()
	<-p.sender.stopped
	if _, err := w.WriteString("not read\n"); err != nil {
		t.Fatal(err)
	}
	waittest.Bound(t, in)
	b := make([]byte, 100)
	if n, err := in.Read(b); err != nil || string(b[:n]) != "not read\n" {
		t.Errorf("%q is left, %v", b[:n], err)
	}
}
