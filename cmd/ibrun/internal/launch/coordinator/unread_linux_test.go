package coordinator

import (
	"encoding/json"
	"io"
	"os"
	"slices"
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

// sendUnread sends signals to an agent that reads nothing until all are sent. It returns those that the agent reads then. The
// first, SIGALRM, is being written while the others wait.
func sendUnread(t *testing.T, signals ...unix.Signal) (read []unix.Signal) {
	t.Helper()
	began, release := make(chan struct{}, len(signals)+1), make(chan struct{})
	l := &localAgent{started: true, command: &watcher.Running{PIDFD: -1}, orders: outbox.New(func(order []byte) error {
		began <- struct{}{}
		<-release
		var o protocol.Order
		if err := json.Unmarshal(order, &o); err != nil {
			t.Errorf("%q: %v", order, err)
		}
		read = append(read, unix.Signal(o.Signal))
		return nil
	})}
	l.order(&protocol.Order{Signal: int(unix.SIGALRM)})
	<-began
	for _, sig := range signals {
		l.order(&protocol.Order{Signal: int(sig)})
	}
	close(release)
	l.orders.Flush(0)
	return read[1:]
}

// No more signals wait for an agent that does not read them than there are kinds. Each is sent, and of those that stop and
// continue the ranks the last.
func TestSignalsForStoppedAgent(t *testing.T) {
	const stop, tstp, cont, winch, usr2, term = unix.SIGSTOP, unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH, unix.SIGUSR2, unix.SIGTERM
	for _, c := range []struct{ sent, want []unix.Signal }{
		{append(slices.Repeat([]unix.Signal{winch}, 100), stop, cont), []unix.Signal{winch, cont}},
		{append(slices.Repeat([]unix.Signal{winch}, 100), cont, stop), []unix.Signal{winch, stop}},
		{slices.Repeat([]unix.Signal{stop, cont}, 1000), []unix.Signal{cont}},
		{slices.Repeat([]unix.Signal{cont, tstp, stop}, 1000), []unix.Signal{stop}},
		{append(slices.Repeat([]unix.Signal{winch, usr2}, 100), stop, term, cont), []unix.Signal{winch, usr2, term, cont}},
	} {
		if got := sendUnread(t, c.sent...); !slices.Equal(got, c.want) {
			t.Errorf("the agent reads %d signals, want %v; the last are %v", len(got), c.want, got[max(0, len(got)-5):])
		}
	}
}
