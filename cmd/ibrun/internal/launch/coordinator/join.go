package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/tunables"
)

// Peers describes how the nodes that the coordinator has started connect to it. It is the zero
// value in other jobs.
type Peers struct {
	// Secret is what the nodes authenticate each other with. Nil: it is read from the secret file.
	Secret *auth.Secret
	// Pipe is, on a node, the connection to the coordinator. Nil: the node connects to
	// --rendezvous.
	Pipe net.Conn
	// Gone is closed, on a node, when the command that has started it has ended.
	Gone <-chan struct{}
	// Starts is, at the coordinator, the news about the nodes that are started, and Listener where
	// they connect if not over pipes.
	Starts   <-chan remote.Event
	Listener *control.Listener
	// Hosts are, at the coordinator, the names of the hosts by which others reach them, by node.
	Hosts []string
	// Programs is called at the coordinator when all nodes have joined. It returns the files of the
	// programs of the command line.
	Programs func() ([]protocol.ProgramFile, error)
	// Linger is, at the coordinator, set to how long the metrics of the nodes that it has started
	// may outlast the job. Nil: it has started none.
	Linger *time.Duration
}

// setLinger sets Linger.
func (p *Peers) setLinger(limit time.Duration) {
	if p.Linger != nil {
		*p.Linger = limit
	}
}

// JoinNodes blocks until all nodes of the job have joined.
func JoinNodes(set *JoinSettings, p Peers, s console.Streams) (*Cluster, error) {
	cl := &Cluster{MasterAddr: "127.0.0.1", peers: p}
	if set.Nodes <= 1 {
		cl.Job.JobID, cl.Job.Names, cl.Job.Heartbeat = newJobID(), []string{set.Name}, set.Heartbeat
		cl.Job.Check = set.Check
		rand.Read(cl.Secret[:])
		port, err := FreePort()
		cl.Job.MasterPort = port
		return cl, err
	}
	secret, err := p.secret(set)
	if err != nil {
		return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	security, err := control.NewSecurity(secret, set.Encrypt)
	if err != nil {
		return nil, err
	}
	ours := newJoin(set.Name, &set.Command)
	if p.Secret != nil {
		if ours.Port, err = FreePort(); err != nil {
			return nil, err
		}
	}
	ctx, stop := console.Interruptible("waiting for the other nodes")
	defer stop()
	if set.Node == 0 {
		err = cl.acceptNodes(ctx, ours, security, set, s)
	} else {
		err = cl.joinCoordinator(ctx, ours, security, set, s)
	}
	if errors.Is(err, control.ErrEncrypt) {
		err = exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	if err == nil {
		cl.Secret, err = secret.Derive(cl.Job.Salt, "job "+cl.Job.JobID)
	}
	return cl, err
}

// joinMargin returns how much longer than --join-timeout nodes may take that the coordinator has
// started: the end of the commands that start them is a more precise reason than that they have not
// joined.
func (p *Peers) joinMargin() time.Duration {
	if p.Secret != nil {
		return 2 * time.Second
	}
	return 0
}

// secret returns the secret of the nodes.
func (p *Peers) secret(set *JoinSettings) (auth.Secret, error) {
	if p.Secret != nil {
		return *p.Secret, nil
	}
	return auth.ReadSecret(set.SecretFile)
}

// MasterOf returns the address of the host of a node, and a port that was free there. If a user has
// started every node, it is that of the coordinator.
func (cl *Cluster) MasterOf(node int) (address string, port int) {
	if s := cl.Job.Started; s != nil && node < len(s.Masters) && node < len(s.Ports) {
		return s.Masters[node], s.Ports[node]
	}
	return cl.MasterAddr, cl.Job.MasterPort
}

func newJobID() string { return strings.ToLower(rand.Text()[:10]) }

// withJoinTimeout returns a context that ends when the time for joining is over, and that much later.
func withJoinTimeout(ctx context.Context, set *JoinSettings, extra time.Duration) (context.Context, context.CancelFunc) {
	limit := set.Timeout
	return context.WithTimeoutCause(ctx, limit+extra, exitcode.Errorf(exitcode.Failed, "within %v (--join-timeout)", limit))
}

// acceptNodes waits at the coordinator until all other nodes have joined, and sends them the job
// information. Connections without the secret have no effect.
func (cl *Cluster) acceptNodes(ctx context.Context, ours *protocol.Join, security control.Security, set *JoinSettings,
	s console.Streams) error {
	ctx, cancel := withJoinTimeout(ctx, set, cl.peers.joinMargin())
	defer cancel()
	cl.workers, cl.received = make([]*joinedNode, set.Nodes), make(chan receivedEvent)
	cl.startFailed, cl.handshakes = make(chan *remote.Error, set.Nodes), map[string]<-chan struct{}{}
	refused, lastRefusal := make(chan error, 1), func() string { return "" }
	var refusedOnce <-chan control.Refusal
	var notice <-chan time.Time
	var err error
	switch {
	case cl.peers.Listener != nil:
		cl.listener = cl.peers.Listener
	case cl.peers.Starts == nil:
		if cl.listener, err = listen(ctx, security, set, s); err != nil {
			return err
		}
		notice = time.After(noticeAfter(set))
	}
	if cl.listener != nil {
		lastRefusal, refusedOnce = cl.listener.LastRefusal, cl.listener.Refusals()
		go cl.acceptConnections(refused)
	}
	shown := refusals{}
	for missing := set.Nodes - 1; missing > 0 && err == nil; {
		select {
		case r := <-cl.received:
			var change int
			change, err = cl.admit(r, ours, set, s)
			missing -= change
		case e := <-cl.peers.Starts:
			err = cl.handleStart(ctx, e, security, set, s)
		case failed := <-cl.startFailed:
			err = cl.cannotStart(ctx, failed, s)
		case err = <-refused:
		case r := <-refusedOnce:
			shown.show(s, r)
		case <-notice:
			cl.noticeMissing(set, s)
		case <-ctx.Done():
			err = cl.missingNodes(context.Cause(ctx), lastRefusal())
		}
	}
	if err == nil {
		err = cl.describeJob(ours, set, s)
	}
	if err != nil {
		cl.Abort(err)
		return err
	}
	cl.sendOrder(&protocol.Order{JobInfo: &cl.Job})
	return nil
}

// acceptConnections receives the events of all nodes that connect. refused receives why the first node of this job may not.
func (cl *Cluster) acceptConnections(refused chan<- error) {
	for {
		c, err := cl.listener.Accept(context.Background())
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
}

// describeJob makes the job information when all nodes have joined.
func (cl *Cluster) describeJob(ours *protocol.Join, set *JoinSettings, s console.Streams) error {
	cl.Job = protocol.JobInfo{JobID: newJobID(), Names: []string{ours.Name}, Salt: make([]byte, 32), Report: set.Report,
		Heartbeat: set.Heartbeat, Grace: set.Grace, FailureGrace: set.FailureGrace, Check: set.Check}
	joins := []*protocol.Join{ours}
	for _, w := range cl.workers[1:] {
		cl.Job.Names, joins = append(cl.Job.Names, w.Name), append(joins, w.Join)
	}
	rand.Read(cl.Job.Salt)
	port, err := FreePort()
	if err != nil {
		return err
	}
	cl.Job.MasterPort = port
	cl.MasterAddr = hostOf(cl.workers[1].conn.Local())
	if cl.peers.Programs == nil {
		return nil
	}
	cl.Job.Started, cl.Job.Forwarding = new(protocol.StartedJob), newForwarding(s)
	if cl.Job.Started.Programs, err = cl.peers.Programs(); err != nil {
		return err
	}
	for node, j := range joins {
		master := cl.peers.Hosts[node]
		if cl.listener != nil { // addresses that are known to work are better than names
			master = hostOf(cl.listener.Addr())
			if node > 0 {
				master = hostOf(cl.workers[node].conn.Remote())
			}
		}
		cl.Job.Started.Masters, cl.Job.Started.Ports = append(cl.Job.Started.Masters, master), append(cl.Job.Started.Ports, j.Port)
	}
	return nil
}

// admit handles an event of a node that joins. It returns by how much the number of joined nodes has changed. An error ends the
// job.
func (cl *Cluster) admit(r receivedEvent, ours *protocol.Join, set *JoinSettings, s console.Streams) (change int, err error) {
	node := r.conn.Node()
	switch {
	case r.err != nil:
		if node < set.Nodes && cl.workers[node] != nil && cl.workers[node].conn == r.conn {
			cl.workers[node] = nil
			s.Warn("a node has disconnected", console.Attrs{PeerNode: &node, Error: r.err.Error(),
				Text: fmt.Sprintf("node %d has disconnected: %v", node, r.err)})
			return -1, nil
		}
		return 0, nil
	case r.event.Kind != protocol.EventJoin || r.event.Join == nil:
		go r.conn.Close()
		return 0, nil
	}
	j := r.event.Join
	if err := checkCommand(ours, set.Nodes, node, r.conn.Nodes(), j); err != nil {
		cl.refuse(r.conn, err)
		return 0, err
	}
	if there := cl.workers[node]; there != nil {
		cl.refuseSecond(r, s, fmt.Sprintf("node %d has already joined: %s at %v", node, there.Name, there.conn.Remote()))
		return 0, nil
	}
	cl.workers[node] = &joinedNode{j, r.conn}
	if set.Verbose {
		s.Info("a node has joined", console.Attrs{PeerNode: &node, PeerHost: j.Name, Address: r.conn.Remote().String(),
			Text: fmt.Sprintf("node %d has joined: %s at %v", node, j.Name, r.conn.Remote())})
	}
	return 1, nil
}

// refuseSecond refuses a second node of one number, and prints so on both sides. The job goes on with the first.
func (cl *Cluster) refuseSecond(r receivedEvent, s console.Streams, why string) {
	why += "; every node needs a number of its own (--node)"
	a := console.Attrs{PeerNode: new(r.conn.Node()), Address: r.conn.Remote().String(), Error: why}
	name := ""
	if j := r.event.Join; j != nil {
		a.PeerHost, name = j.Name, "("+j.Name+") "
	}
	a.Text = fmt.Sprintf("node %d %sat %v was refused: %s", r.conn.Node(), name, r.conn.Remote(), why)
	s.Warn("a node was refused", a)
	cl.refuse(r.conn, exitcode.Errorf(exitcode.UsageError, "%s", why))
}

// missing returns the nodes that have not joined, and how messages name them.
func (cl *Cluster) missing() (nodes []int, text string) {
	for node := 1; node < len(cl.workers); node++ {
		if cl.workers[node] == nil {
			nodes = append(nodes, node)
		}
	}
	where := ""
	if len(cl.peers.Hosts) == len(cl.workers) {
		var hosts []string
		for _, node := range nodes[:min(len(nodes), maxFailed)] {
			hosts = append(hosts, cl.peers.Hosts[node])
		}
		if where = " (" + strings.Join(hosts, ", ") + ")"; len(nodes) > maxFailed {
			where = " (" + strings.Join(hosts, ", ") + ", ...)"
		}
	}
	if len(nodes) == 1 {
		return nodes, fmt.Sprintf("node %d%s of %d", nodes[0], where, len(cl.workers))
	}
	return nodes, fmt.Sprintf("nodes %s%s of %d", hw.FormatList(nodes), where, len(cl.workers))
}

// missingNodes returns an error that names the nodes that did not join, and why waiting has ended.
func (cl *Cluster) missingNodes(why error, refused string) error {
	if exitcode.IsSignal(why) {
		return why
	}
	if refused != "" {
		refused = "; " + refused
	}
	_, nodes := cl.missing()
	if cl.peers.Starts != nil {
		refused += "; ibrun was started there: see what it does, and whether it can use the working directory"
	}
	return exitcode.Errorf(exitcode.Failed, "%s did not join %w%s", nodes, why, refused)
}

// dial connects this node to the coordinator.
func (cl *Cluster) dial(ctx context.Context, security control.Security, set *JoinSettings, s console.Streams) (*control.Conn,
	error) {
	if cl.peers.Pipe != nil {
		return control.JoinPipe(ctx, cl.peers.Pipe, security, set.Node, set.Nodes)
	}
	c, err := control.DialNotify(ctx, set.Rendezvous, security, set.Node, set.Nodes, noticeCoordinator(set, s))
	if err != nil && exitcode.Of(err) == exitcode.Failed && ctx.Err() != nil {
		err = fmt.Errorf("node 0 at %s did not answer %w", set.Rendezvous, err)
	}
	return c, err
}

// isJob reports whether this is the description of a job on that many nodes.
func isJob(j *protocol.JobInfo, nodes int) bool {
	if j == nil || len(j.Names) != nodes || !isJobID(j.JobID) || !isPort(j.MasterPort) || j.Grace < 0 || j.FailureGrace < 0 ||
		tunables.CheckHeartbeat(j.Heartbeat) != nil {
		return false
	}
	s := j.Started
	return s == nil || len(s.Masters) == nodes && len(s.Ports) == nodes &&
		!slices.ContainsFunc(s.Ports, func(port int) bool { return !isPort(port) }) &&
		!slices.ContainsFunc(s.Programs, func(f protocol.ProgramFile) bool { return f.Size < 0 })
}

// isJobID reports whether the coordinator may have chosen this name for a job. It becomes a part of
// names of files.
func isJobID(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// joinCoordinator connects to the coordinator, and blocks until all other nodes have joined too.
func (cl *Cluster) joinCoordinator(ctx context.Context, ours *protocol.Join, security control.Security, set *JoinSettings,
	s console.Streams) error {
	patient, cancel := withJoinTimeout(ctx, set, cl.peers.joinMargin())
	defer cancel()
	c, err := cl.dial(patient, security, set, s)
	if err != nil {
		return err
	}
	if set.Verbose {
		s.Info("connected to node 0", console.Attrs{PeerNode: new(0), Address: c.Remote().String(),
			Text: fmt.Sprintf("this is node %d of %d, and node 0 is at %v", set.Node, set.Nodes, c.Remote())})
	}
	cl.coordinator, cl.orders, cl.MasterAddr = c, make(chan *protocol.Order), hostOf(c.Remote())
	go cl.receiveOrders()
	cl.sendEvent(&protocol.Event{Kind: protocol.EventJoin, Join: ours})
	select {
	case first, ok := <-cl.orders:
		if !ok {
			return cl.coordinatorLost(cl.lost)
		}
		if err = cl.acceptJob(first, set.Nodes); err != nil {
			c.Close()
		}
	case <-ctx.Done():
		c.Close()
		err = context.Cause(ctx)
	}
	return err
}

// acceptJob takes the description of the job from the answer of the coordinator to the request to
// join.
func (cl *Cluster) acceptJob(answer *protocol.Order, nodes int) error {
	err := checkEarly(answer)
	switch {
	case err != nil:
		return cl.refuseCoordinator(err)
	case answer.Outcome != nil:
		return exitcode.Errorf(answer.Outcome.Code, "%s", strings.Join(answer.Outcome.Lines(), "; "))
	case !isJob(answer.JobInfo, nodes):
		return cl.refuseCoordinator(protocolError("it has sent an invalid answer to the request to join"))
	}
	cl.Job = *answer.JobInfo
	return nil
}
