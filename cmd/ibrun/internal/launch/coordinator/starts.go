package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
)

const (
	// alsoFailed is how long node 0 waits for further hosts that fail, when one has. So a user sees all of them.
	alsoFailed = 200 * time.Millisecond
	// maxFailed is how many hosts are described.
	maxFailed = 8
)

// handleStart handles news about a node that is being started, before all nodes have joined. An error ends the job.
func (cl *Cluster) handleStart(e remote.Event, security control.Security, o *cli.Options, s console.Streams) error {
	switch {
	case e.Note != "":
		s.Printf("%s", e.Note)
	case e.Ready != nil:
		if e.Ready.In != nil {
			go cl.servePipe(e, security, o)
		}
	case e.Err != nil:
		return cl.cannotStart(e.Err, s)
	}
	return nil
}

// servePipe makes the control connection over the standard streams of a node's command, and receives the events of the node.
func (cl *Cluster) servePipe(e remote.Event, security control.Security, o *cli.Options) {
	host := cl.peers.Hosts[e.Node]
	pipe, err := control.NewPipe(e.Ready.In, e.Ready.Out, cl.peers.Hosts[0], host)
	var c *control.Conn
	if err == nil {
		c, err = control.ServePipe(context.Background(), pipe, security, e.Node, o.Nodes, Heartbeat(o), func() error {
			return fmt.Errorf("%w: %s", control.ErrPipe, (<-e.Ready.Ended).Reason) // one line: what it has printed is known
		})
	}
	if err == nil {
		cl.receiveEvents(c)
		return
	}
	if errors.Is(err, control.ErrPipe) {
		select {
		case <-e.Ready.Ended: // an event that describes the end follows
			return
		case <-time.After(alsoFailed):
		}
	}
	cl.startFailed <- &remote.Error{Host: host, Reason: fmt.Sprintf("it does not speak the protocol of ibrun: %v", err),
		Command: e.Ready.Command}
}

// cannotStart returns the error for a host that cannot be used, and for others that fail in the next moment. Each has a line of
// its own.
func (cl *Cluster) cannotStart(first *remote.Error, s console.Streams) error {
	failed, more := []*remote.Error{first}, 0
	for enough := time.After(alsoFailed); ; {
		select {
		case e := <-cl.peers.Starts:
			switch {
			case e.Err == nil:
			case len(failed) < maxFailed:
				failed = append(failed, e.Err)
			default:
				more++
			}
			continue
		case r := <-cl.received: // its sender must not wait
			if r.event != nil && r.event.Kind == protocol.EventFailure {
				s.Printf("%s", r.event.Text)
			}
			continue
		case <-enough:
		}
		break
	}
	var errs []error
	for _, e := range failed {
		errs = append(errs, fmt.Errorf("cannot start ibrun on %w", e))
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("cannot start ibrun on %d other hosts", more))
	}
	return exitcode.Errorf(first.ExitCode(), "%w", errors.Join(errs...))
}

// startLine returns the line for the user about the end of the command that has started a node.
func startLine(e *remote.Error) string {
	return fmt.Sprintf("the connection to %s: %s", e.Host, e.Reason)
}
