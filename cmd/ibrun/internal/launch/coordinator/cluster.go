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
	MasterAddr string // the address of node 0

	peers       Peers
	startFailed chan *remote.Error         // on node 0: nodes that were started, but cannot be connected
	handshakes  map[string]<-chan struct{} // on node 0, by host: closed when servePipe has connected a node, or failed

	workers  []*joinedNode      // on node 0, by node number; the first is nil
	received chan receivedEvent // on node 0: the events of other nodes
	closers  sync.WaitGroup
	listener *control.Listener // on node 0: open until the end of the job, because connections may break
	hurry    bool              // on node 0: the user does not want to wait for other nodes

	node0  *control.Conn        // on other nodes: the connection to node 0
	orders chan *protocol.Order // on other nodes: the orders of node 0; closed when the connection ends
	early  earlyOrders          // on other nodes: orders that were received before the ranks were started
	lost   *loss                // why orders was closed; set before it is closed
}

// joinedNode is another node that has joined, on node 0.
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

// receiveOrders sends the orders of node 0 to cl.orders until the connection ends.
func (cl *Cluster) receiveOrders() {
	for {
		text, err := cl.node0.Recv()
		var o *protocol.Order
		if err == nil {
			o, err = decodeOrder(text)
		}
		if err != nil {
			cl.lost = newLoss(cl.node0, err, time.Now())
			close(cl.orders)
			return
		}
		cl.orders <- o
	}
}

// sendEvent sends an event to node 0. It converts the time of the event to node 0's clock.
func (cl *Cluster) sendEvent(e *protocol.Event) {
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	if ahead, ok := cl.node0.ClockOffset(); ok {
		e.Time += int64(ahead)
	}
	if text, err := json.Marshal(e); err == nil { // encoding an event cannot fail
		_ = cl.node0.Send(text) // exchange messages and texts are far below the limit
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
	if cl.node0 != nil {
		text := why.Error()
		if cl.Job.Started != nil { // the user sees only what node 0 prints
			text = cl.Job.Names[cl.node0.Node()] + ": " + text
		}
		cl.sendEvent(&protocol.Event{Kind: protocol.EventFailure, Code: exitcode.Of(why), Text: text})
		cl.node0.Close()
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

// decodeOrder parses an order from node 0.
func decodeOrder(text []byte) (*protocol.Order, error) {
	o := new(protocol.Order)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, protocolError(fmt.Sprintf("it has sent an invalid order: %v", err))
	}
	return o, nil
}
