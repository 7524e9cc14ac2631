package coordinator

import (
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/auth"
)

// Cluster is what the nodes of a job have agreed on, and the connections between them. A job on one node has met as soon
// as it is asked.
type Cluster struct {
	Welcome    protocol.Welcome
	Secret     auth.Key
	MasterAddr string // address of node 0

	workers  []*joinedNode      // on node 0, by node; the first is nil
	received chan receivedEvent // what they say
	closers  sync.WaitGroup

	node0   *control.Conn        // on the other nodes
	orders  chan *protocol.Order // what it says; closed when it says no more
	lostErr error                // and why, set before
}

// joinedNode is another node as node 0 sees it.
type joinedNode struct {
	*protocol.Join
	conn *control.Conn
}

// receivedEvent is what another node has said, or why it says no more.
type receivedEvent struct {
	conn  *control.Conn
	event *protocol.Event
	err   error
}

// receiveEvents takes in what another node says.
func (m *Cluster) receiveEvents(c *control.Conn) {
	for {
		text, err := c.Recv()
		h := receivedEvent{conn: c, err: err}
		if err == nil {
			h.event, h.err = decodeEvent(text)
		}
		m.received <- h
		if h.err != nil {
			c.Close()
			return
		}
	}
}

// refuse tells a node why it may not take part.
func (m *Cluster) refuse(c *control.Conn, why error) {
	encodeOrder(&protocol.Order{Outcome: &protocol.Outcome{Code: exitcode.Of(why), Lines: []string{why.Error()}}})(c)
	m.closers.Go(c.Close)
}

// receiveOrders takes in what node 0 says.
func (m *Cluster) receiveOrders() {
	for {
		text, err := m.node0.Recv()
		var o *protocol.Order
		if err == nil {
			o, err = decodeOrder(text)
		}
		if err != nil {
			m.lostErr = err
			close(m.orders)
			return
		}
		m.orders <- o
	}
}

// sendEvent tells node 0 something, at a time by its clock.
func (m *Cluster) sendEvent(e *protocol.Event) {
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	if ahead, ok := m.node0.ClockOffset(); ok {
		e.Time += int64(ahead)
	}
	if text, err := json.Marshal(e); err == nil { // events can always be written down
		_ = m.node0.Send(text) // parcels and texts are bounded, far below the limit
	}
}

// sendOrder tells all other nodes something.
func (m *Cluster) sendOrder(o *protocol.Order) {
	send := encodeOrder(o)
	for _, g := range m.workers {
		if g != nil {
			send(g.conn)
		}
	}
}

// encodeOrder writes an order down once, to be sent to several nodes.
func encodeOrder(o *protocol.Order) (send func(*control.Conn)) {
	text, err := json.Marshal(o)
	return func(c *control.Conn) {
		if err == nil { // orders can always be written down
			_ = c.Send(text) // parcels and texts are bounded, far below the limit
		}
	}
}

// Abort ends a job that fails on this node before its ranks were to be watched.
func (m *Cluster) Abort(why error) {
	if m.node0 != nil {
		m.sendEvent(&protocol.Event{Kind: protocol.EventFailure, Code: exitcode.Of(why), Text: why.Error()})
		m.node0.Close()
		return
	}
	m.sendOutcome(&protocol.Outcome{Code: exitcode.Of(why), Lines: []string{why.Error()}})
}

// sendOutcome tells the other nodes the verdict, and waits until they have it, and those that were refused know why.
func (m *Cluster) sendOutcome(v *protocol.Outcome) {
	m.sendOrder(&protocol.Order{Outcome: v})
	for _, g := range m.workers {
		if g != nil {
			m.closers.Go(g.conn.Close)
		}
	}
	m.closers.Wait()
}

// hostOf returns an address without its port.
func hostOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return a.String()
}

// FreeAddr returns an address of this host, on all of its interfaces if host is empty, that nobody listens on.
func FreeAddr(host string) (*net.TCPAddr, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, exitcode.Errorf(exitcode.Failed, "find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr), nil
}

// decodeEvent reads what another node has said.
func decodeEvent(text []byte) (*protocol.Event, error) {
	e := new(protocol.Event)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("what came is no event: %w", err)
	}
	return e, nil
}

// decodeOrder reads what node 0 has said.
func decodeOrder(text []byte) (*protocol.Order, error) {
	o := new(protocol.Order)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, fmt.Errorf("what came is no order: %w", err)
	}
	return o, nil
}
