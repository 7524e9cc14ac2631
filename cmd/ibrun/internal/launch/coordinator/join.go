package coordinator

import (
	"cmp"
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
	"github.com/ibrun/ibrun/internal/tunables"
)

// joinTimeout limits how long the nodes wait for each other unless --join-timeout is given.
const joinTimeout = time.Minute

// JoinNodes blocks until all nodes of the job have joined. name is the name of this node.
func JoinNodes(name string, o *cli.Options, s console.Streams) (*Cluster, error) {
	cl := &Cluster{MasterAddr: "127.0.0.1"}
	if o.Nodes <= 1 {
		cl.Job.JobID, cl.Job.Names, cl.Job.Heartbeat = newJobID(), []string{name}, heartbeat(o)
		cl.Job.Check = o.Check
		rand.Read(cl.Secret[:])
		port, err := FreePort()
		cl.Job.MasterPort = port
		return cl, err
	}
	secret, err := auth.ReadSecret(o.SecretFile)
	if err != nil {
		return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	security, err := control.NewSecurity(secret, o.Encrypt)
	if err != nil {
		return nil, err
	}
	ctx, stop := console.Interruptible("waiting for the other nodes")
	defer stop()
	if o.Node == 0 {
		err = cl.acceptNodes(ctx, newJoin(name, o), security, o, s)
	} else {
		err = cl.joinNode0(ctx, newJoin(name, o), security, o, s)
	}
	if errors.Is(err, control.ErrEncrypt) {
		err = exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	if err == nil {
		cl.Secret, err = secret.Derive(cl.Job.Salt, "job "+cl.Job.JobID)
	}
	return cl, err
}

// heartbeat returns how long a node may be silent according to the command line of this node.
func heartbeat(o *cli.Options) time.Duration { return cmp.Or(o.Heartbeat, tunables.DefaultHeartbeat) }

func newJobID() string { return strings.ToLower(rand.Text()[:10]) }

// withJoinTimeout returns a context that ends when the time for joining is over.
func withJoinTimeout(ctx context.Context, o *cli.Options) (context.Context, context.CancelFunc) {
	limit := joinLimit(o)
	return context.WithTimeoutCause(ctx, limit, exitcode.Errorf(exitcode.Failed, "within %v (--join-timeout)", limit))
}

// acceptNodes waits on node 0 until all other nodes have joined, and sends them the job information. Connections without the
// secret have no effect.
func (cl *Cluster) acceptNodes(ctx context.Context, ours *protocol.Join, security control.Security, o *cli.Options,
	s console.Streams) error {
	ctx, cancel := withJoinTimeout(ctx, o)
	defer cancel()
	l, err := listen(ctx, security, o, s)
	if err != nil {
		return err
	}
	cl.listener = l
	cl.workers, cl.received = make([]*joinedNode, o.Nodes), make(chan receivedEvent)
	refused := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept(context.Background())
			if errors.Is(err, control.ErrEncrypt) {
				select {
				case refused <- err:
				default: // the job has started, or has been refused already
				}
				continue
			}
			if err != nil {
				return // the job has ended
			}
			go cl.receiveEvents(c) // a node that comes too late is refused
		}
	}()
	shown, notice := refusals{}, time.After(noticeAfter(o))
	for missing := o.Nodes - 1; missing > 0 && err == nil; {
		select {
		case r := <-cl.received:
			var change int
			change, err = cl.admit(r, ours, o, s)
			missing -= change
		case err = <-refused:
		case r := <-l.Refusals():
			shown.show(s, r)
		case <-notice:
			cl.noticeMissing(o, s)
		case <-ctx.Done():
			err = cl.missingNodes(context.Cause(ctx), l.LastRefusal())
		}
	}
	if err != nil {
		cl.Abort(err)
		return err
	}
	cl.Job = protocol.JobInfo{JobID: newJobID(), Names: []string{ours.Name}, Salt: make([]byte, 32), Report: o.Report,
		Heartbeat: heartbeat(o), Grace: o.Grace, FailureGrace: o.FailureGrace, Check: o.Check}
	for _, w := range cl.workers[1:] {
		cl.Job.Names = append(cl.Job.Names, w.Name)
	}
	rand.Read(cl.Job.Salt)
	port, err := FreePort()
	if err != nil {
		cl.Abort(err)
		return err
	}
	cl.Job.MasterPort = port
	cl.MasterAddr = hostOf(cl.workers[1].conn.Local())
	cl.sendOrder(&protocol.Order{JobInfo: &cl.Job})
	return nil
}

// admit handles an event of a node that joins. It returns by how much the number of joined nodes has changed. An error ends the
// job.
func (cl *Cluster) admit(r receivedEvent, ours *protocol.Join, o *cli.Options, s console.Streams) (change int, err error) {
	node := r.conn.Node()
	switch {
	case r.err != nil:
		if node < o.Nodes && cl.workers[node] != nil && cl.workers[node].conn == r.conn {
			cl.workers[node] = nil
			s.Printf("node %d has disconnected: %v", node, r.err)
			return -1, nil
		}
		return 0, nil
	case r.event.Kind != protocol.EventJoin || r.event.Join == nil:
		go r.conn.Close()
		return 0, nil
	}
	j := r.event.Join
	if err := checkCommand(ours, o.Nodes, node, r.conn.Nodes(), j); err != nil {
		cl.refuse(r.conn, err)
		return 0, err
	}
	if there := cl.workers[node]; there != nil {
		cl.refuseSecond(r, s, fmt.Sprintf("node %d has already joined: %s at %v", node, there.Name, there.conn.Remote()))
		return 0, nil
	}
	cl.workers[node] = &joinedNode{j, r.conn}
	if o.Verbose {
		s.Printf("node %d has joined: %s at %v", node, j.Name, r.conn.Remote())
	}
	return 1, nil
}

// refuseSecond refuses a second node of one number, and says so on both sides. The job goes on with the first.
func (cl *Cluster) refuseSecond(r receivedEvent, s console.Streams, why string) {
	why += "; every node needs a number of its own (--node)"
	name := ""
	if j := r.event.Join; j != nil {
		name = "(" + j.Name + ") "
	}
	s.Printf("node %d %sat %v was refused: %s", r.conn.Node(), name, r.conn.Remote(), why)
	cl.refuse(r.conn, exitcode.Errorf(exitcode.UsageError, "%s", why))
}

// missing returns the nodes that have not joined, and how messages name them.
func (cl *Cluster) missing() (nodes []int, text string) {
	for node := 1; node < len(cl.workers); node++ {
		if cl.workers[node] == nil {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 1 {
		return nodes, fmt.Sprintf("node %d of %d", nodes[0], len(cl.workers))
	}
	return nodes, fmt.Sprintf("nodes %s of %d", hw.FormatList(nodes), len(cl.workers))
}

// missingNodes returns an error that names the nodes that did not join, and why waiting has ended.
func (cl *Cluster) missingNodes(why error, refused string) error {
	if exitcode.Of(why) != exitcode.Failed {
		return why // interrupted by a signal
	}
	if refused != "" {
		refused = "; " + refused
	}
	_, nodes := cl.missing()
	return exitcode.Errorf(exitcode.Failed, "%s did not join %w%s", nodes, why, refused)
}

// joinNode0 connects to node 0, and blocks until all other nodes have joined too.
func (cl *Cluster) joinNode0(ctx context.Context, ours *protocol.Join, security control.Security, o *cli.Options,
	s console.Streams) error {
	patient, cancel := withJoinTimeout(ctx, o)
	defer cancel()
	c, err := control.DialNotify(patient, o.Rendezvous, security, o.Node, o.Nodes, noticeNode0(o, s))
	if err != nil && exitcode.Of(err) == exitcode.Failed && patient.Err() != nil {
		err = fmt.Errorf("node 0 at %s did not answer %w", o.Rendezvous, err)
	}
	if err != nil {
		return err
	}
	if o.Verbose {
		s.Printf("this is node %d of %d, and node 0 is at %v", o.Node, o.Nodes, c.Remote())
	}
	cl.node0, cl.orders, cl.MasterAddr = c, make(chan *protocol.Order), hostOf(c.Remote())
	go cl.receiveOrders()
	cl.sendEvent(&protocol.Event{Kind: protocol.EventJoin, Join: ours})
	select {
	case first, ok := <-cl.orders:
		switch {
		case !ok:
			err = fmt.Errorf("node 0 at %v is lost: %w", c.Remote(), cl.lost.err)
		case first.Outcome != nil:
			c.Close()
			err = exitcode.Errorf(first.Outcome.Code, "%s", strings.Join(first.Outcome.Lines, "; "))
		case first.JobInfo == nil || len(first.JobInfo.Names) != o.Nodes:
			c.Close()
			err = fmt.Errorf("node 0 at %v sent an invalid answer to the join request", c.Remote())
		default:
			cl.Job = *first.JobInfo
		}
	case <-ctx.Done():
		c.Close()
		err = context.Cause(ctx)
	}
	return err
}
