package mpitest

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Rendezvous is a server at which several test programs meet that run the same tests together, each on its own
// machine or in its own network namespace. The ranks of every world are assigned to the programs round-robin. They
// are connected by the transports that IBRUN_TRANSPORT names.
//
//	rendezvous, err := mpitest.NewRendezvous("tcp", "10.0.0.1:0", 2)
//	for k := range 2 { // each on another machine
//		cmd := exec.Command("./x.test", "-test.run", "^TestRing$")
//		cmd.Env = append(os.Environ(), rendezvous.Environ(k), "IBRUN_TRANSPORT=tcp")
//		...
//	}
//
// The programs must run the same tests in the same order, with worlds whose ranks share no variables. A world of one
// rank needs no other program: every program has its own. The caller that starts the programs owns the Rendezvous,
// and should close it when one of them has ended and others may be waiting for it. Its messages are not encrypted, so
// it should use the network of the test.
type Rendezvous struct {
	listener net.Listener
	token    string
	programs int
	served   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	clients map[*client]bool // that are in a world
	waiting []*client        // by program: those that have said something, and wait for the others
}

// client is a program connected to the rendezvous, for one world.
type client struct {
	conn    net.Conn
	message message
}

// message is what a program sends twice for each world, before and after it. The server replies with the messages of
// all programs.
type message struct {
	Token   string         `json:"token,omitempty"`
	Program int            `json:"program"`
	World   string         `json:"world"`
	Last    bool           `json:"last,omitempty"`
	Addrs   map[int][]byte `json:"addrs,omitempty"`   // addresses, by rank
	Failure string         `json:"failure,omitempty"` // of a rank
}

// NewRendezvous listens for this number of programs. network and addr are as for net.Listen, and all programs must be
// able to reach the address; "unix" works between network namespaces.
func NewRendezvous(network, addr string, programs int) (*Rendezvous, error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, fmt.Errorf("make a table for %d test programs: %w", programs, err)
	}
	t := &Rendezvous{
		listener: l, token: rand.Text(), programs: programs,
		clients: map[*client]bool{}, waiting: make([]*client, programs),
	}
	t.served.Go(t.accept)
	return t, nil
}

// Environ returns the variable that program k, from 0, must have in its environment.
func (t *Rendezvous) Environ(k int) string {
	at := t.listener.Addr()
	return fmt.Sprintf("%s=%s %s %s %d %d", rendezvousVariable, at.Network(), at, t.token, k, t.programs)
}

// Close disconnects all programs: worlds that are running or have not started fail. It may be called again.
func (t *Rendezvous) Close() error {
	t.mu.Lock()
	t.closed = true
	t.disconnectAll()
	t.mu.Unlock()
	err := t.listener.Close()
	t.served.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// disconnectAll disconnects all clients. The caller must hold mu.
func (t *Rendezvous) disconnectAll() {
	for g := range t.clients {
		_ = g.conn.Close() // the result does not matter: nothing more is read
	}
}

func (t *Rendezvous) accept() {
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return // closed
		}
		g := &client{conn: conn}
		t.mu.Lock()
		if t.clients[g] = true; t.closed {
			t.disconnectAll()
		}
		t.mu.Unlock()
		t.served.Go(func() { t.serve(g) })
	}
}

// serve receives messages from a client until it disconnects. If it disconnects during a world, the world ends for
// the others as well.
func (t *Rendezvous) serve(g *client) {
	in, known := json.NewDecoder(g.conn), false
	for {
		var w message
		if in.Decode(&w) != nil {
			break
		}
		ours := subtle.ConstantTimeCompare([]byte(w.Token), []byte(t.token)) == 1
		if !ours || w.Program < 0 || w.Program >= t.programs {
			break
		}
		known = true
		t.mu.Lock()
		g.message, t.waiting[w.Program] = w, g
		t.replyIfComplete()
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = g.conn.Close()
	if t.clients[g] && known {
		t.disconnectAll()
	}
	delete(t.clients, g)
	for k, other := range t.waiting {
		if other == g {
			t.waiting[k] = nil
		}
	}
}

// replyIfComplete sends the messages of all programs to each of them, when all have sent theirs. The caller must hold
// mu.
func (t *Rendezvous) replyIfComplete() {
	words := make([]message, t.programs)
	for k, g := range t.waiting {
		if g == nil {
			return
		}
		words[k] = g.message
		words[k].Token = ""
	}
	for k, g := range t.waiting {
		_ = json.NewEncoder(g.conn).Encode(words) // serve notices if the client has disconnected
		if t.waiting[k] = nil; g.message.Last {
			delete(t.clients, g)
		}
	}
}
