package coordinator

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
)

// receiveFile makes a node receive a file of one byte after these orders. It returns the node and the error.
func receiveFile(t *testing.T, orders ...*protocol.Order) (*Cluster, error) {
	t.Helper()
	_, conn := connect(t)
	cl := &Cluster{coordinator: conn, orders: make(chan *protocol.Order, len(orders)+1)}
	for _, o := range append(orders, &protocol.Order{File: &protocol.FileChunk{Data: []byte("x")}}) {
		cl.orders <- o
	}
	return cl, cl.ReceiveFile(0, 1, func([]byte) error { return nil })
}

// The ranks of other nodes may run and exit for as long as the file of a program takes, and users may look at the job, and type.
func TestOrdersBeforeFile(t *testing.T) {
	var orders []*protocol.Order
	ranks := 2 * maxEarly
	for rank := range ranks {
		orders = append(orders, &protocol.Order{Left: []int{rank}}, &protocol.Order{Question: &protocol.Question{ID: 1}},
			&protocol.Order{Input: &protocol.Input{Data: []byte("typed\n")}})
	}
	orders = append(orders, &protocol.Order{Signal: 28})
	cl, err := receiveFile(t, orders...)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(cl.early.list); n != ranks+2 { // the input is kept as it was sent
		t.Errorf("%d orders are kept", n)
	}
	if left := cl.early.list[0].Left; len(left) != ranks || left[0] != 0 || left[ranks-1] != ranks-1 {
		t.Errorf("%d of %d ranks have left", len(left), ranks)
	}
}

// A user may resize the window of the terminal, or stop and continue the job, for as long as the file of a program takes.
func TestSignalsBeforeFile(t *testing.T) {
	var orders []*protocol.Order
	for range maxEarly {
		for _, sig := range []unix.Signal{unix.SIGWINCH, unix.SIGSTOP, unix.SIGCONT} {
			orders = append(orders, &protocol.Order{Signal: int(sig)})
		}
	}
	cl, err := receiveFile(t, orders...)
	if err != nil {
		t.Fatal(err)
	}
	if l := cl.early.list; len(l) != 2 || l[0].Signal != int(unix.SIGWINCH) || l[1].Signal != int(unix.SIGCONT) {
		t.Errorf("%d orders are kept, want SIGWINCH and SIGCONT", len(l))
	}
}

// A node keeps no more than a job can cause, and ends with an error if node 0 sends what is not an order, or that the job has
// succeeded.
func TestInvalidOrdersBeforeFile(t *testing.T) {
	many := func(n int, o protocol.Order) (list []*protocol.Order) {
		for range n {
			list = append(list, new(o))
		}
		return list
	}
	var signals []*protocol.Order
	for sig := range maxEarly + 4 { // of three of them the last is kept
		signals = append(signals, &protocol.Order{Signal: sig + 1})
	}
	const blames = "the ibrun of node 0 at n0 does not follow the protocol: it "
	for want, orders := range map[string][]*protocol.Order{
		"more ranks than a job has":      many(2, protocol.Order{Left: make([]int, placement.MaxRanks/2+1)}),
		"more standard input":            many(maxUnreadInput/1000+1, protocol.Order{Input: &protocol.Input{Data: make([]byte, 1000)}}),
		"4096 signals and other short":   many(maxEarly+1, protocol.Order{Input: &protocol.Input{End: true}}),
		"more than 4096 signals":         signals,
		"(OutputAck) before the ranks":   many(1, protocol.Order{OutputAck: &protocol.OutputAck{Stream: 1}}),
		"2 contents (Signal, Question)":  many(1, protocol.Order{Signal: 28, Question: &protocol.Question{}}),
		"0 contents":                     many(1, protocol.Order{}),
		"the job has succeeded":          many(1, protocol.Order{Outcome: &protocol.Outcome{}}),
		"the exit code 300":              many(1, protocol.Order{Outcome: &protocol.Outcome{Code: 300}}),
		"the job has ended: a rank died": many(1, protocol.Order{Outcome: protocol.NewOutcome(3, message.Message{Msg: "a rank died"})}),
	} {
		_, err := receiveFile(t, orders...)
		if err == nil || !strings.Contains(err.Error(), want) || exitcode.Of(err) == 0 {
			t.Errorf("%v (exit code %d), want %s", err, exitcode.Of(err), want)
		}
		if err != nil && strings.HasPrefix(err.Error(), blames) == strings.HasPrefix(want, "the job has ended") {
			t.Errorf("%v", err)
		}
	}
}

// TestFiles: a node receives a file as it is on node 0, also an empty one, or the reason why node 0 cannot read it, with the name
// of the file.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "short": "x", "long": strings.Repeat("abc", fileChunk)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		size int64
		want string // the error
	}{
		{"empty", 0, ""},
		{"short", 1, ""},
		{"long", 3 * fileChunk, ""},
		{"missing", 0, "open " + filepath.Join(dir, "missing") + ": no such file or directory"},
		{"missing", 1, "open " + filepath.Join(dir, "missing") + ": no such file or directory"},
		{"short", 2, "unexpected EOF"},
	} {
		zero, one := connectUnread(t, sockets(t))
		cl := &Cluster{coordinator: one, orders: make(chan *protocol.Order)}
		go cl.receiveOrders()
		path := filepath.Join(dir, c.name)
		go sendFile(zero, 0, protocol.ProgramFile{Path: protocol.Text(path), Size: c.size})
		var got []byte
		err := cl.ReceiveFile(0, c.size, func(chunk []byte) error {
			got = append(got, chunk...)
			return nil
		})
		if c.want != "" {
			if err == nil || err.Error() != c.want {
				t.Errorf("%s of %d bytes: %v", c.name, c.size, err)
			}
		} else if want, errRead := os.ReadFile(path); err != nil || errRead != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d of %d bytes, %v, %v", c.name, len(got), len(want), err, errRead)
		}
		if err := zero.Send([]byte(`{"Signal":28}`)); err != nil {
			t.Fatal(err)
		}
		if o := <-cl.orders; o == nil || o.Signal != 28 {
			t.Errorf("%s of %d bytes: %+v was left", c.name, c.size, o)
		}
	}
}

// A node does not take an empty part of a file that is not empty, nor a part of one that is.
func TestWrongParts(t *testing.T) {
	for _, c := range []struct {
		size int64
		data []byte
	}{{0, []byte("x")}, {1, nil}, {1, []byte("xx")}} {
		_, conn := connect(t)
		cl := &Cluster{coordinator: conn, orders: make(chan *protocol.Order, 1)}
		cl.orders <- &protocol.Order{File: &protocol.FileChunk{Data: c.data}}
		err := cl.ReceiveFile(0, c.size, func([]byte) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "it has sent another file than was requested") {
			t.Errorf("%d bytes of a file of %d: %v", len(c.data), c.size, err)
		}
	}
}

// A node names a node 0 that does not follow the protocol, or is lost, in the same words before its ranks run as later.
func TestNode0LostEarly(t *testing.T) {
	_, conn := connect(t)
	const report = " That is an error in ibrun, unless another program has the secret of the nodes: please report it"
	for _, c := range []struct {
		answer protocol.Order
		want   string
	}{
		{protocol.Order{}, "the ibrun of node 0 at n0 does not follow the protocol: it has sent an order with 0 contents ()." + report},
		{protocol.Order{Signal: 2}, "the ibrun of node 0 at n0 does not follow the protocol: it has sent an invalid answer to the " +
			"request to join." + report},
		{protocol.Order{Outcome: failedStart(errors.New("node 2 did not join"))}, "node 2 did not join"},
	} {
		cl := &Cluster{coordinator: conn}
		if err := cl.acceptJob(&c.answer, 2); err == nil || err.Error() != c.want || exitcode.Of(err) != exitcode.Failed {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	for err, want := range map[error]string{
		control.ErrDied:      "the ibrun of node 0 (host) at n0 was killed or has crashed",
		protocolError("why"): "the ibrun of node 0 (host) at n0 does not follow the protocol: why." + report,
		control.ErrPipe:      "the connection to node 0 (host) at n0 is lost: " + control.ErrPipe.Error(),
	} {
		cl := &Cluster{coordinator: conn, orders: make(chan *protocol.Order), lost: newLoss(conn, err, time.Now())}
		cl.Job.Names = []string{"host", "other"}
		close(cl.orders)
		if got := cl.ReceiveFile(0, 1, nil); got == nil || got.Error() != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}
