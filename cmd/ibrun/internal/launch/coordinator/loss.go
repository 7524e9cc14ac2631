package coordinator

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
)

// protocolError says how another node does not follow the protocol between the nodes.
type protocolError string

func (e protocolError) Error() string {
	return "it does not follow the protocol of ibrun: " + string(e)
}

// loss is how the connection to the ibrun of another node has ended before the job has.
type loss struct {
	err   error
	since time.Time // when the connection broke, or when the node was heard last
	// here is what is wrong with the network of this node; empty: its kernel reports no fault.
	here string
}

// newLoss returns the loss of a connection that has just ended.
func newLoss(c *control.Conn, err error, since time.Time) *loss {
	l := &loss{err: err, since: since}
	if l.silent() {
		l.here = networkFault(c.Local(), c.Remote())
	}
	return l
}

// silent reports whether the other node may still run, but cannot be reached.
func (l *loss) silent() bool { return errors.Is(l.err, control.ErrSilent) }

// cutOff reports whether it is not known which of the two nodes cannot be reached any more.
func (l *loss) cutOff() bool { return l.silent() && !errors.Is(l.err, control.ErrInVain) }

// reason describes the loss. It does not blame a node that is only silent, because this node may be the one that is cut off. name
// is empty if it is not known yet.
func (l *loss) reason(node int, name string, at net.Addr) string {
	which := fmt.Sprintf("node %d (%s) at %v", node, name, at)
	if name == "" {
		which = fmt.Sprintf("node %d at %v", node, at)
	}
	if errors.Is(l.err, control.ErrDied) {
		return fmt.Sprintf("the ibrun of %s was killed or has crashed", which)
	}
	if why, ok := errors.AsType[protocolError](l.err); ok {
		return fmt.Sprintf("the ibrun of %s does not follow the protocol: %s. That is an error in ibrun, unless another program has "+
			"the secret of the nodes: please report it", which, string(why))
	}
	return fmt.Sprintf("the connection to %s is lost: %v", which, l.err)
}

// coordinatorLost returns the error that the coordinator is lost, before the ranks of this node
// run.
func (cl *Cluster) coordinatorLost(l *loss) error {
	name := ""
	if len(cl.Job.Names) > 0 {
		name = cl.Job.Names[0]
	}
	return errors.New(l.reason(0, name, cl.coordinator.Remote()))
}

// refuseCoordinator is coordinatorLost for a coordinator that does not follow the protocol.
func (cl *Cluster) refuseCoordinator(why error) error {
	return cl.coordinatorLost(newLoss(cl.coordinator, why, time.Now()))
}

// ownNetworkFailed returns the message that the network of this node has failed, and which connections it has lost.
func ownNetworkFailed(node int, name, why, lost string) string {
	return fmt.Sprintf("the network of node %d (%s) has failed: %s; the connection to %s is lost", node, name, why, lost)
}
