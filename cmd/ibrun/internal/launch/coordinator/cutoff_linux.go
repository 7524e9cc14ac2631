package coordinator

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/hw"
)

// lossReason returns the reason why the coordinator has lost this node, which was not the only one
// that it could have lost. A fault of the network of the coordinator, or the loss of all nodes at
// the same time, means that the coordinator itself is cut off. If there is only one other node,
// either of them may be.
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
	case !n.loss.cutOff() || len(c.nodes) == 2:
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

// silentWith returns the nodes that became silent at the same time as this one, and whether the
// coordinator could reach others.
func (c *coordinator) silentWith(n *node) (silent []int, others bool) {
	for _, o := range c.nodes[1:] {
		switch {
		case o.loss != nil && o.loss.cutOff() && o.loss.since.Sub(n.loss.since).Abs() < sameTime:
			silent = append(silent, o.number)
		case o.loss != nil, o.doneAt.After(n.loss.since), !o.done:
			others = true
		}
	}
	return silent, others
}
