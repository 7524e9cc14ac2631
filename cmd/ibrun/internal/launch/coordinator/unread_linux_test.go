package coordinator

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/outbox"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
)

// A node that lives, but receives nothing, delays neither node 0 nor the orders to others.
func TestNodeThatDoesNotReceive(t *testing.T) {
	zero, one := sockets(t), sockets(t)
	var closed sync.Mutex // held while orders do not pass
	there, here := os.NewFile(uintptr(zero[1]), "n0"), os.NewFile(uintptr(one[0]), "n1")
	var copying sync.WaitGroup
	copying.Go(func() { _, _ = io.Copy(there, here) }) // until the connection is closed
	copying.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := there.Read(buf)
			closed.Lock()
			_, errWrite := here.Write(buf[:n])
			closed.Unlock()
			if err != nil || errWrite != nil {
				return
			}
		}
	})
	conn, _ := connectOver(t, [2]int{zero[0], one[1]})
	cl := &Cluster{workers: []*joinedNode{nil, {conn: conn}}}
	closed.Lock()
	order := protocol.NewOutcome(1, message.Message{Msg: strings.Repeat("x", 900_000)})
	for range 40 { // more than Send keeps
		cl.sendOrder(&protocol.Order{Outcome: order})
	}
	closed.Unlock()
	t.Cleanup(func() {
		there.Close()
		here.Close()
		copying.Wait()
	})
}

// Signals are not kept without limit for an agent that does not read them; those that ask the ranks to end are.
func TestSignalsForStoppedAgent(t *testing.T) {
	release, written := make(chan struct{}), 0
	l := &localAgent{started: true, command: &watcher.Running{PIDFD: -1}, orders: outbox.New(func(order []byte) error {
		<-release
		written++
		return nil
	})}
	for range 100 {
		l.order(&protocol.Order{Signal: int(unix.SIGWINCH)})
		l.order(&protocol.Order{Signal: int(unix.SIGCONT)})
	}
	l.order(&protocol.Order{Signal: int(unix.SIGTERM)})
	close(release)
	l.orders.Flush(0)
	if written != maxSignals+1 {
		t.Errorf("%d orders were kept", written)
	}
	l.order(&protocol.Order{Signal: int(unix.SIGCONT)})
	if l.orders.Flush(0); written != maxSignals+2 {
		t.Error("no signal is sent after the agent has read the others")
	}
}
