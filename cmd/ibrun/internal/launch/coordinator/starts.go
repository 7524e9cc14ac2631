package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
)

const (
	// alsoFailed is how long the coordinator waits for further hosts that fail, when one has. So a
	// user sees all of them.
	alsoFailed = 200 * time.Millisecond
	// explainWithin is how long the command that has started a node may take to end after its pipe has broken. Its end tells the
	// reason, which the pipe does not.
	explainWithin = 10 * time.Second
	// maxFailed is how many hosts are described.
	maxFailed = 8
)

// handleStart handles news about a node that is being started, before all nodes have joined. An error ends the job.
func (cl *Cluster) handleStart(ctx context.Context, e remote.Event, security control.Security, set *JoinSettings,
	s console.Streams) error {
	switch {
	case e.Note != nil:
		s.Log(e.Note)
	case e.Ready != nil:
		if e.Ready.In != nil {
			done := make(chan struct{})
			cl.handshakes[cl.peers.Hosts[e.Node]] = done
			go cl.servePipe(e, security, set, done)
		}
	case e.Err != nil:
		return cl.cannotStart(ctx, e.Err, s)
	}
	return nil
}

// servePipe makes the control connection over the standard streams of a node's command, and receives the events of the node. It
// closes done when the connection is made, or has failed and an error about that was sent.
func (cl *Cluster) servePipe(e remote.Event, security control.Security, set *JoinSettings, done chan<- struct{}) {
	c, failed := cl.connectPipe(e, security, set)
	if failed != nil {
		cl.startFailed <- failed // it has room for all nodes
	}
	close(done)
	if c != nil {
		cl.receiveEvents(c)
	}
}

// connectPipe is the first part of servePipe. It returns neither a connection nor an error if an event of the command describes
// the failure.
func (cl *Cluster) connectPipe(e remote.Event, security control.Security, set *JoinSettings) (*control.Conn, *remote.Error) {
	host := cl.peers.Hosts[e.Node]
	pipe, err := control.NewPipe(e.Ready.In, e.Ready.Out, cl.peers.Hosts[0], host)
	var c *control.Conn
	if err == nil {
		c, err = control.ServePipe(context.Background(), pipe, security, e.Node, set.Nodes, set.Heartbeat, func() error {
			return fmt.Errorf("%w: %s", control.ErrPipe, (<-e.Ready.Ended).Reason) // one line: what it has printed is known
		})
	}
	if err == nil {
		return c, nil
	}
	if errors.Is(err, control.ErrPipe) {
		select {
		case <-e.Ready.Ended: // an event that describes the end follows
			return nil, nil
		case <-time.After(explainWithin):
		}
	}
	return nil, &remote.Error{Host: host, Reason: fmt.Sprintf("it does not speak the protocol of ibrun: %v", err),
		Command: e.Ready.Command}
}

// cannotStart returns the error for a host that cannot be used, and for others that fail in the next moment. Each has a line of
// its own. That a host does not speak the protocol says more than how its command has ended after that.
func (cl *Cluster) cannotStart(ctx context.Context, first *remote.Error, s console.Streams) error {
	failed, more := []*remote.Error{first}, map[string]bool{}
	find := func(host string) int {
		return slices.IndexFunc(failed, func(e *remote.Error) bool { return e.Host == host })
	}
	add := func(e *remote.Error) {
		if len(failed) < maxFailed {
			failed = append(failed, e)
		} else {
			more[e.Host] = true
		}
	}
	noProtocol := func(e *remote.Error) {
		if i := find(e.Host); i >= 0 {
			failed[i] = e
		} else {
			add(e)
		}
	}
	for enough := time.After(alsoFailed); ; {
		select {
		case e := <-cl.peers.Starts:
			switch {
			case e.Note != nil:
				s.Log(e.Note)
			case e.Err != nil && find(e.Err.Host) < 0:
				add(e.Err)
			}
			continue
		case e := <-cl.startFailed:
			noProtocol(e)
			continue
		case r := <-cl.received: // its sender must not wait
			if r.event != nil && r.event.Kind == protocol.EventFailure {
				s.Error(launcherFailed, console.Attrs{PeerNode: new(r.conn.Node()), Text: r.event.Text})
			}
			continue
		case <-enough:
		}
		break
	}
	ctx, cancel := context.WithTimeout(ctx, explainWithin)
	defer cancel()
	for _, e := range failed {
		if done := cl.handshakes[e.Host]; done != nil {
			select {
			case <-done: // mostly at once: the pipe of a command that has ended is closed
			case <-ctx.Done(): // another process holds the pipe open
			}
		}
	}
	for len(cl.startFailed) > 0 {
		noProtocol(<-cl.startFailed)
	}
	var errs []error
	for _, e := range failed {
		errs = append(errs, fmt.Errorf("cannot start ibrun on %w", e))
	}
	if len(more) > 0 {
		errs = append(errs, fmt.Errorf("cannot start ibrun on %d other hosts", len(more)))
	}
	return exitcode.Errorf(failed[0].ExitCode(), "%w", errors.Join(errs...))
}

// startLine returns the line for the user about the end of the command that has started a node.
func startLine(e *remote.Error) string {
	return fmt.Sprintf("the connection to %s: %s", e.Host, e.Reason)
}
