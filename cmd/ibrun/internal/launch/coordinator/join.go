package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/auth"
)

// joinTimeout is how long the nodes wait for each other unless --join-timeout says otherwise.
const joinTimeout = time.Minute

// JoinNodes waits until all nodes are there, of which this has that name.
func JoinNodes(name string, o *cli.Options, s console.Streams) (*Cluster, error) {
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
		return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	ctx, stop := console.Interruptible("waiting for the other nodes")
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
	return context.WithTimeoutCause(ctx, limit, exitcode.Errorf(exitcode.Failed, "within %v (--join-timeout)", limit))
}

// acceptNodes waits on node 0 until all others are there, and welcomes them. Who comes without the secret changes nothing.
func (m *Cluster) acceptNodes(ctx context.Context, ours *protocol.Join, secret auth.Secret, o *cli.Options,
	s console.Streams) error {
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
			err = m.missingNodes(context.Cause(ctx), l.LastRefusal())
		}
	}
	err = errors.Join(err, l.Close())
	if err != nil {
		m.Abort(err)
		return err
	}
	m.Welcome = protocol.Welcome{JobID: newJobID(), Names: []string{ours.Name}, Salt: make([]byte, 32), Report: o.Report}
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
	m.sendOrder(&protocol.Order{Welcome: &m.Welcome})
	return nil
}

// admit lets a node take part. It returns how many more are there now; an error ends the job.
func (m *Cluster) admit(h receivedEvent, ours *protocol.Join, o *cli.Options, s console.Streams) (change int, err error) {
	node := h.conn.Node()
	switch {
	case h.err != nil:
		if node < o.Nodes && m.workers[node] != nil && m.workers[node].conn == h.conn {
			m.workers[node] = nil
			s.Say("node %d has left again: %v", node, h.err)
			return -1, nil
		}
		return 0, nil
	case h.event.Kind != protocol.EventJoin || h.event.Join == nil:
		go h.conn.Close()
		return 0, nil
	}
	j := h.event.Join
	if err := checkCommand(ours, o.Nodes, node, h.conn.Nodes(), j); err != nil {
		m.refuse(h.conn, err)
		return 0, err
	}
	if there := m.workers[node]; there != nil {
		m.refuse(h.conn, exitcode.Errorf(exitcode.UsageError, "there is a node %d already, %s at %v", node, there.Name,
			there.conn.Remote()))
		return 0, nil
	}
	m.workers[node] = &joinedNode{j, h.conn}
	if o.Verbose {
		s.Say("node %d has joined: %s at %v", node, j.Name, h.conn.Remote())
	}
	return 1, nil
}

// missingNodes says who did not come, and why the wait has ended.
func (m *Cluster) missingNodes(why error, refused string) error {
	var nodes []int
	for node := 1; node < len(m.workers); node++ {
		if m.workers[node] == nil {
			nodes = append(nodes, node)
		}
	}
	if exitcode.Of(why) != exitcode.Failed {
		return why // a signal
	}
	who := fmt.Sprintf("nodes %s of %d", hw.FormatList(nodes), len(m.workers))
	if len(nodes) == 1 {
		who = fmt.Sprintf("node %d of %d", nodes[0], len(m.workers))
	}
	if refused != "" {
		refused = "; " + refused
	}
	return exitcode.Errorf(exitcode.Failed, "%s did not join %w%s", who, why, refused)
}

// joinNode0 makes this node take part, and waits until all others do.
func (m *Cluster) joinNode0(ctx context.Context, ours *protocol.Join, secret auth.Secret, o *cli.Options,
	s console.Streams) error {
	patient, cancel := withJoinTimeout(ctx, o)
	defer cancel()
	c, err := control.Dial(patient, o.Rendezvous, secret, o.Node, o.Nodes)
	if err != nil && exitcode.Of(err) == exitcode.Failed && patient.Err() != nil {
		err = fmt.Errorf("node 0 at %s did not answer %w", o.Rendezvous, err)
	}
	if err != nil {
		return err
	}
	if o.Verbose {
		s.Say("this is node %d of %d, and node 0 is at %v", o.Node, o.Nodes, c.Remote())
	}
	m.node0, m.orders, m.MasterAddr = c, make(chan *protocol.Order), hostOf(c.Remote())
	go m.receiveOrders()
	m.sendEvent(&protocol.Event{Kind: protocol.EventJoin, Join: ours})
	select {
	case first, ok := <-m.orders:
		switch {
		case !ok:
			err = fmt.Errorf("node 0 at %v is lost: %w", c.Remote(), m.lostErr)
		case first.Outcome != nil:
			c.Close()
			err = exitcode.Errorf(first.Outcome.Code, "%s", strings.Join(first.Outcome.Lines, "; "))
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
