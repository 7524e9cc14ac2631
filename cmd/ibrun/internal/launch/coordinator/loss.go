package coordinator

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/hw"
)

// loss is how the connection to the ibrun of another node has ended before the job has.
type loss struct {
	err   error
	since time.Time // when the connection broke, or when the node was heard last
	// here is what is wrong with the network of this node; empty: nothing that its kernel knows.
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

// reason describes the loss. It does not blame a node that is only silent, because this node may be the one that is cut off.
func (l *loss) reason(node int, name string, at net.Addr) string {
	if errors.Is(l.err, control.ErrDied) {
		return fmt.Sprintf("the ibrun of node %d (%s) at %v was killed or has crashed", node, name, at)
	}
	return fmt.Sprintf("the connection to node %d (%s) at %v is lost: %v", node, name, at, l.err)
}

// ownNetworkFailed says that this node is cut off, and what it has lost thereby.
func ownNetworkFailed(node int, name, why, lost string) string {
	return fmt.Sprintf("the network of node %d (%s) has failed: %s; the connection to %s is lost", node, name, why, lost)
}

// lossReason returns the reason why node 0 has lost this node, which was not the only one that it could have lost. A fault of
// the network of node 0, or the loss of all nodes at the same time, means that node 0 itself is cut off. If there is only one
// other node, either of them may be.
func (c *coordinator) lossReason(n *node) string {
	zero := c.nodes[0]
	silent, others := c.silentWith(n)
	text := "node " + hw.FormatList(silent)
	if len(silent) > 1 {
		text = "nodes " + hw.FormatList(silent)
	}
	switch {
	case n.loss.here != "":
		return ownNetworkFailed(0, zero.name, n.loss.here, text)
	case !n.loss.silent() || len(c.nodes) == 2:
		return n.loss.reason(n.number, n.name, n.conn.Remote())
	case len(silent) > 1 && !others:
		return ownNetworkFailed(0, zero.name, fmt.Sprintf("all other nodes are silent since %s, %v",
			n.loss.since.Format(time.TimeOnly), n.loss.err), text)
	}
	return fmt.Sprintf("node %d (%s) at %v is lost: %v", n.number, n.name, n.conn.Remote(), n.loss.err)
}

// sameTime bounds the time between the last messages of nodes that are cut off at the same time: their heartbeats are sent at
// different times, and a busy machine reads them late.
const sameTime = 2 * time.Second

// silentWith returns the nodes that became silent at the same time as this one, and whether node 0 could reach others.
func (c *coordinator) silentWith(n *node) (silent []int, others bool) {
	for _, o := range c.nodes[1:] {
		switch {
		case o.loss != nil && o.loss.silent() && o.loss.since.Sub(n.loss.since).Abs() < sameTime:
			silent = append(silent, o.number)
		case o.loss != nil, o.doneAt.After(n.loss.since), !o.done:
			others = true
		}
	}
	return silent, others
}
