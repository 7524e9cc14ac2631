package launch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/auth"
)

// joinTimeout is how long the nodes wait for each other unless --join-timeout says otherwise.
const joinTimeout = time.Minute

// Cluster is what the nodes of a job have agreed on, and the connections between them. A job on one node has met as soon
// as it is asked.
type Cluster struct {
	Welcome    Welcome
	Secret     ranklink.Secret
	MasterAddr string // address of node 0

	workers  []*joinedNode      // on node 0, by node; the first is nil
	received chan receivedEvent // what they say
	closers  sync.WaitGroup

	node0   *control.Conn // on the other nodes
	orders  chan *Order   // what it says; closed when it says no more
	lostErr error         // and why, set before
}

// joinedNode is another node as node 0 sees it.
type joinedNode struct {
	*Join
	conn *control.Conn
}

// receivedEvent is what another node has said, or why it says no more.
type receivedEvent struct {
	conn  *control.Conn
	event *Event
	err   error
}

// JoinNodes waits until all nodes are there, of which this has that name.
func JoinNodes(name string, o *cli.Options, s Streams) (*Cluster, error) {
	m := &Cluster{MasterAddr: "127.0.0.1"}
	if o.Nodes <= 1 {
		m.Welcome.JobID, m.Welcome.Names = newJobID(), []string{name}
		rand.Read(m.Secret[:])
		addr, err := FreeAddr(m.MasterAddr)
		if err == nil {
			m.Welcome.MasterPort = addr.Port
		}
		return m, err
	}
	secret, err := auth.ReadSecret(o.SecretFile)
	if err != nil {
		return nil, Errorf(UsageError, "%w", err)
	}
	ctx, stop := Interruptible("waiting for the other nodes")
	defer stop()
	if o.Node == 0 {
		err = m.acceptNodes(ctx, newJoin(name, o), secret, o, s)
	} else {
		err = m.joinNode0(ctx, newJoin(name, o), secret, o, s)
	}
	if err == nil {
		m.Secret, err = secret.Derive(m.Welcome.Salt, "job "+m.Welcome.JobID)
	}
	return m, err
}

func newJobID() string { return strings.ToLower(rand.Text()[:10]) }

// withJoinTimeout is a context that ends when the nodes have waited for each other for long enough.
func withJoinTimeout(ctx context.Context, o *cli.Options) (context.Context, context.CancelFunc) {
	limit := o.JoinTimeout
	if limit == 0 {
		limit = joinTimeout
	}
	return context.WithTimeoutCause(ctx, limit, Errorf(Failed, "within %v (--join-timeout)", limit))
}

// Interruptible is a context that ends when the user wants the job to end.
func Interruptible(what string) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	Notify(signals, EndSignals())
	go func() {
		if sig, ok := <-signals; ok {
			cancel(Errorf(SignalBase+int(sig.(syscall.Signal)), "%s was stopped: %v", what, sig))
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
	}
}

// acceptNodes waits on node 0 until all others are there, and welcomes them. Who comes without the secret changes nothing.
func (m *Cluster) acceptNodes(ctx context.Context, ours *Join, secret control.Secret, o *cli.Options, s Streams) error {
	l, err := control.Listen(o.Rendezvous, secret)
	if err != nil {
		return fmt.Errorf("%w (--rendezvous names an address of node 0)", err)
	}
	ctx, cancel := withJoinTimeout(ctx, o)
	defer cancel()
	m.workers, m.received = make([]*joinedNode, o.Nodes), make(chan receivedEvent)
	go func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			go m.receiveEvents(c)
		}
	}()
	for missing := o.Nodes - 1; missing > 0 && err == nil; {
		select {
		case h := <-m.received:
			var change int
			change, err = m.admit(h, ours, o, s)
			missing -= change
		case <-ctx.Done():
			err = m.missingNodes(context.Cause(ctx), l.Refused())
		}
	}
	err = errors.Join(err, l.Close())
	if err != nil {
		m.Abort(err)
		return err
	}
	m.Welcome = Welcome{JobID: newJobID(), Names: []string{ours.Name}, Salt: make([]byte, 32), Report: o.Report}
	for _, g := range m.workers[1:] {
		m.Welcome.Names = append(m.Welcome.Names, g.Name)
	}
	rand.Read(m.Welcome.Salt)
	addr, err := FreeAddr("")
	if err != nil {
		m.Abort(err)
		return err
	}
	m.Welcome.MasterPort = addr.Port
	m.MasterAddr = hostOf(m.workers[1].conn.Local())
	m.sendOrder(&Order{Welcome: &m.Welcome})
	return nil
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

// admit lets a node take part. It returns how many more are there now; an error ends the job.
func (m *Cluster) admit(h receivedEvent, ours *Join, o *cli.Options, s Streams) (change int, err error) {
	node := h.conn.Node()
	switch {
	case h.err != nil:
		if node < o.Nodes && m.workers[node] != nil && m.workers[node].conn == h.conn {
			m.workers[node] = nil
			s.Say("node %d has left again: %v", node, h.err)
			return -1, nil
		}
		return 0, nil
	case h.event.Kind != EventJoin || h.event.Join == nil:
		go h.conn.Close()
		return 0, nil
	}
	j := h.event.Join
	if err := checkCommand(ours, o.Nodes, node, h.conn.Nodes(), j); err != nil {
		m.refuse(h.conn, err)
		return 0, err
	}
	if there := m.workers[node]; there != nil {
		m.refuse(h.conn, Errorf(UsageError, "there is a node %d already, %s at %v", node, there.Name, there.conn.Remote()))
		return 0, nil
	}
	m.workers[node] = &joinedNode{j, h.conn}
	if o.Verbose {
		s.Say("node %d has joined: %s at %v", node, j.Name, h.conn.Remote())
	}
	return 1, nil
}

// refuse tells a node why it may not take part.
func (m *Cluster) refuse(c *control.Conn, why error) {
	encodeOrder(&Order{Outcome: &Outcome{Code: Of(why), Lines: []string{why.Error()}}})(c)
	m.closers.Go(c.Close)
}

// missingNodes says who did not come, and why the wait has ended.
func (m *Cluster) missingNodes(why error, refused string) error {
	var nodes []int
	for node := 1; node < len(m.workers); node++ {
		if m.workers[node] == nil {
			nodes = append(nodes, node)
		}
	}
	if Of(why) != Failed {
		return why // a signal
	}
	who := fmt.Sprintf("nodes %s of %d", hw.FormatList(nodes), len(m.workers))
	if len(nodes) == 1 {
		who = fmt.Sprintf("node %d of %d", nodes[0], len(m.workers))
	}
	if refused != "" {
		refused = "; " + refused
	}
	return Errorf(Failed, "%s did not join %w%s", who, why, refused)
}

// joinNode0 makes this node take part, and waits until all others do.
func (m *Cluster) joinNode0(ctx context.Context, ours *Join, secret control.Secret, o *cli.Options, s Streams) error {
	patient, cancel := withJoinTimeout(ctx, o)
	defer cancel()
	c, err := control.Dial(patient, o.Rendezvous, secret, o.Node, o.Nodes)
	if err != nil && Of(err) == Failed && patient.Err() != nil {
		err = fmt.Errorf("node 0 at %s did not answer %w", o.Rendezvous, err)
	}
	if err != nil {
		return err
	}
	if o.Verbose {
		s.Say("this is node %d of %d, and node 0 is at %v", o.Node, o.Nodes, c.Remote())
	}
	m.node0, m.orders, m.MasterAddr = c, make(chan *Order), hostOf(c.Remote())
	go m.receiveOrders()
	m.sendEvent(&Event{Kind: EventJoin, Join: ours})
	select {
	case first, ok := <-m.orders:
		switch {
		case !ok:
			err = fmt.Errorf("node 0 at %v is lost: %w", c.Remote(), m.lostErr)
		case first.Outcome != nil:
			c.Close()
			err = Errorf(first.Outcome.Code, "%s", strings.Join(first.Outcome.Lines, "; "))
		case first.Welcome == nil || len(first.Welcome.Names) != o.Nodes:
			c.Close()
			err = fmt.Errorf("node 0 at %v does not welcome this node", c.Remote())
		default:
			m.Welcome = *first.Welcome
		}
	case <-ctx.Done():
		c.Close()
		err = context.Cause(ctx)
	}
	return err
}

// receiveOrders takes in what node 0 says.
func (m *Cluster) receiveOrders() {
	for {
		text, err := m.node0.Recv()
		var o *Order
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
func (m *Cluster) sendEvent(e *Event) {
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	if ahead, ok := m.node0.Clock(); ok {
		e.Time += int64(ahead)
	}
	if text, err := json.Marshal(e); err == nil { // events can always be written down
		_ = m.node0.Send(text) // parcels and texts are bounded, far below the limit
	}
}

// sendOrder tells all other nodes something.
func (m *Cluster) sendOrder(o *Order) {
	send := encodeOrder(o)
	for _, g := range m.workers {
		if g != nil {
			send(g.conn)
		}
	}
}

// encodeOrder writes an order down once, to be sent to several nodes.
func encodeOrder(o *Order) (send func(*control.Conn)) {
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
		m.sendEvent(&Event{Kind: EventFailure, Code: Of(why), Text: why.Error()})
		m.node0.Close()
		return
	}
	m.sendOutcome(&Outcome{Code: Of(why), Lines: []string{why.Error()}})
}

// sendOutcome tells the other nodes the verdict, and waits until they have it, and those that were refused know why.
func (m *Cluster) sendOutcome(v *Outcome) {
	m.sendOrder(&Order{Outcome: v})
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
		return nil, Errorf(Failed, "find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr), nil
}
