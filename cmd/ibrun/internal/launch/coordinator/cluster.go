package coordinator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
	"github.com/ibrun/ibrun/internal/auth"
)

// Cluster contains what the nodes of a job have agreed on, and the connections between them. A job on one node has no
// connections.
type Cluster struct {
	Job        protocol.JobInfo
	Secret     auth.Key
	MasterAddr string // the address of the coordinator

	peers Peers
	// startFailed receives, at the coordinator, nodes that were started, but cannot be connected.
	startFailed chan *remote.Error
	// handshakes has, at the coordinator, by host, what is closed when servePipe has connected a
	// node, or failed.
	handshakes map[string]<-chan struct{}

	workers  []*joinedNode      // at the coordinator, by node number; the first is nil
	received chan receivedEvent // at the coordinator: the events of other nodes
	closers  sync.WaitGroup
	listener *control.Listener // at the coordinator: open until the end, since connections may break
	hurry    bool              // at the coordinator: the user does not want to wait for other nodes

	coordinator *control.Conn        // on other nodes: the connection to the coordinator
	orders      chan *protocol.Order // on other nodes: its orders; closed when the connection ends
	early       earlyOrders          // on other nodes: orders that were received before the ranks were started
	lost        *loss                // why orders was closed; set before it is closed
}

// joinedNode is another node that has joined, at the coordinator.
type joinedNode struct {
	*protocol.Join
	conn *control.Conn
}

// receivedEvent is an event from another node, or the error that ended its connection.
type receivedEvent struct {
	conn  *control.Conn
	event *protocol.Event
	err   error
	loss  *loss // with err: how the connection was lost
}

// receiveEvents sends the events of a connection to cl.received until the connection ends.
func (cl *Cluster) receiveEvents(c *control.Conn) {
	for {
		r := receivedEvent{conn: c}
		text, err := c.Recv()
		if err == nil {
			if r.event, err = decodeEvent(text); err != nil {
				r.loss = newLoss(c, err, time.Now())
			}
		} else {
			r.loss = newLoss(c, err, c.LostSince())
		}
		r.err = err
		cl.received <- r
		if err != nil {
			c.Close()
			return
		}
	}
}

// refuse sends a node the reason why it may not take part.
func (cl *Cluster) refuse(c *control.Conn, why error) {
	encodeOrder(&protocol.Order{Outcome: failedStart(why)})(c)
	cl.closers.Go(c.Close)
}

// receiveOrders sends the orders of the coordinator to cl.orders until the connection ends.
func (cl *Cluster) receiveOrders() {
	for {
		text, err := cl.coordinator.Recv()
		var o *protocol.Order
		if err == nil {
			o, err = decodeOrder(text)
		}
		if err != nil {
			cl.lost = newLoss(cl.coordinator, err, time.Now())
			close(cl.orders)
			return
		}
		cl.orders <- o
	}
}

// sendEvent sends an event to the coordinator. It converts the time of the event to the
// coordinator's clock.
func (cl *Cluster) sendEvent(e *protocol.Event) {
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	if ahead, ok := cl.coordinator.ClockOffset(); ok {
		e.Time += int64(ahead)
	}
	if text, err := json.Marshal(e); err == nil { // encoding an event cannot fail
		_ = cl.coordinator.Send(text) // exchange messages and texts are far below the limit
	}
}

// sendOrder sends an order to all other nodes.
func (cl *Cluster) sendOrder(o *protocol.Order) {
	send := encodeOrder(o)
	for _, w := range cl.workers {
		if w != nil {
			send(w.conn)
		}
	}
}

// encodeOrder encodes an order once, so that it can be sent to several nodes. send does not block: a node that does not receive
// delays nothing else, and is lost.
func encodeOrder(o *protocol.Order) (send func(*control.Conn)) {
	text, err := json.Marshal(o)
	return func(c *control.Conn) {
		if err == nil { // encoding an order cannot fail
			_ = c.Post(text) // exchange messages and texts are far below the limit
		}
	}
}

// sendOwn sends an order with a part of much data, from a goroutine of that data. It blocks while the node does not receive.
func sendOwn(c *control.Conn, o *protocol.Order) {
	if text, err := json.Marshal(o); err == nil { // encoding an order cannot fail
		_ = c.Send(text) // the parts are below the limit
	}
}

// Abort ends a job that fails on this node before RunJob was called.
func (cl *Cluster) Abort(why error) {
	if cl.coordinator != nil {
		text := why.Error()
		if cl.Job.Started != nil { // the user sees only what the coordinator prints
			text = cl.Job.Names[cl.coordinator.Node()] + ": " + text
		}
		cl.sendEvent(&protocol.Event{Kind: protocol.EventFailure, Code: exitcode.Of(why), Text: text})
		cl.coordinator.Close()
		return
	}
	cl.sendOutcome(failedStart(why))
}

// failedStart returns the outcome of a job that has failed before its ranks were started.
func failedStart(why error) *protocol.Outcome {
	return protocol.NewOutcome(exitcode.Of(why), message.Message{Msg: "the job could not be started",
		Attrs: message.Attrs{Error: why.Error(), Text: why.Error()}})
}

// sendOutcome sends the outcome of the job to the other nodes. It blocks until they have received it, and until refused nodes
// have received the reason.
func (cl *Cluster) sendOutcome(v *protocol.Outcome) {
	cl.sendOrder(&protocol.Order{Outcome: v})
	limit := cmp.Or(cl.Job.Heartbeat, time.Second) // a node may be silent for that time
	if cl.hurry {
		limit = time.Second
	}
	for _, w := range cl.workers {
		if w != nil {
			cl.closers.Go(func() { w.conn.CloseWithin(limit) })
		}
	}
	cl.closers.Wait()
	if cl.listener != nil {
		_ = cl.listener.Close() // nothing depends on it any more
	}
}

// hostOf returns an address without its port.
func hostOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return a.String()
}

// decodeEvent parses an event from another node.
func decodeEvent(text []byte) (*protocol.Event, error) {
	e := new(protocol.Event)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, protocolError(fmt.Sprintf("it has sent an invalid event: %v", err))
	}
	return e, nil
}

// decodeOrder parses an order from the coordinator.
func decodeOrder(text []byte) (*protocol.Order, error) {
	o := new(protocol.Order)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, protocolError(fmt.Sprintf("it has sent an invalid order: %v", err))
	}
	return o, nil
}
