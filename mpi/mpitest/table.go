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

// Table is where test programs meet that run the same tests together, each on a machine, or in a network namespace, of its own:
// the ranks of every world are dealt out to them in turn, and joined by the transports that IBRUN_TRANSPORT names.
//
//	table, err := mpitest.NewTable("tcp", "10.0.0.1:0", 2)
//	for k := range 2 { // each somewhere else
//		cmd := exec.Command("./x.test", "-test.run", "^TestRing$")
//		cmd.Env = append(os.Environ(), table.Environ(k), "IBRUN_TRANSPORT=tcp")
//		...
//	}
//
// The programs have to run the same tests in the same order, with worlds whose ranks share no variables. A world of one needs
// nobody else: every program has its own. The table belongs to whoever starts the programs, who should close it when one of
// them has ended and others may wait for it. What they tell it is not encrypted: its network should be that of the test.
type Table struct {
	listener net.Listener
	token    string
	programs int
	served   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	guests map[*guest]bool // that are in a world
	ready  []*guest        // by program: those that have said something, and wait for the others
}

// guest is a program at the table, for one world.
type guest struct {
	conn net.Conn
	said word
}

// word is what a program says twice for each world, before it and after it. The table answers with the words of all.
type word struct {
	Token   string         `json:"token,omitempty"`
	Program int            `json:"program"`
	World   string         `json:"world"`
	Last    bool           `json:"last,omitempty"`
	Cards   map[int][]byte `json:"cards,omitempty"`   // addresses, by rank
	Failure string         `json:"failure,omitempty"` // of a rank
}

// NewTable listens for so many programs at an address of a network, as net.Listen takes them, which they have to reach: "unix"
// will do between network namespaces.
func NewTable(network, addr string, programs int) (*Table, error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, fmt.Errorf("make a table for %d test programs: %w", programs, err)
	}
	t := &Table{listener: l, token: rand.Text(), programs: programs, guests: map[*guest]bool{}, ready: make([]*guest, programs)}
	t.served.Go(t.accept)
	return t, nil
}

// Environ is the variable that program k, from 0, has to have in its environment.
func (t *Table) Environ(k int) string {
	at := t.listener.Addr()
	return fmt.Sprintf("%s=%s %s %s %d %d", tableVariable, at.Network(), at, t.token, k, t.programs)
}

// Close sends all programs away: worlds that are under way, or have not met, fail. It may be repeated.
func (t *Table) Close() error {
	t.mu.Lock()
	t.closed = true
	t.clear()
	t.mu.Unlock()
	err := t.listener.Close()
	t.served.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// clear sends all guests away.
func (t *Table) clear() {
	for g := range t.guests {
		_ = g.conn.Close() // whatever this says, it is not heard any more
	}
}

func (t *Table) accept() {
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return // closed
		}
		g := &guest{conn: conn}
		t.mu.Lock()
		if t.guests[g] = true; t.closed {
			t.clear()
		}
		t.mu.Unlock()
		t.served.Go(func() { t.serve(g) })
	}
}

// serve hears a guest until it goes. If it goes in the middle of a world, that ends for the others, too.
func (t *Table) serve(g *guest) {
	in, known := json.NewDecoder(g.conn), false
	for {
		var w word
		if in.Decode(&w) != nil {
			break
		}
		ours := subtle.ConstantTimeCompare([]byte(w.Token), []byte(t.token)) == 1
		if !ours || w.Program < 0 || w.Program >= t.programs {
			break
		}
		known = true
		t.mu.Lock()
		g.said, t.ready[w.Program] = w, g
		t.answer()
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = g.conn.Close()
	if t.guests[g] && known {
		t.clear()
	}
	delete(t.guests, g)
	for k, other := range t.ready {
		if other == g {
			t.ready[k] = nil
		}
	}
}

// answer tells all what all have said, once all have.
func (t *Table) answer() {
	words := make([]word, t.programs)
	for k, g := range t.ready {
		if g == nil {
			return
		}
		words[k] = g.said
		words[k].Token = ""
	}
	for k, g := range t.ready {
		_ = json.NewEncoder(g.conn).Encode(words) // its reader finds out if it has gone
		if t.ready[k] = nil; g.said.Last {
			delete(t.guests, g)
		}
	}
}
