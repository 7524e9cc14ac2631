package coordinator

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// handleSignal handles a signal that the user has sent to this ibrun, or to that of another node. The first request to end the
// job is forwarded to the ranks, the second kills them.
func (c *coordinator) handleSignal(sig syscall.Signal, here bool) {
	switch sig {
	case console.HangViewSignal:
		c.local.monitor.ShowHangView()
		return
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
		if !c.endRequested && !c.ending {
			c.endRequested, c.failures.endRequested = true, true
			c.Printf("asking the ranks to end (%s); a second signal kills them", unix.SignalName(sig))
			break
		}
		why := fmt.Sprintf("the ranks did not end when asked, and were killed (%s)", unix.SignalName(sig))
		c.recordFailure(&failure{rank: -1, code: exitcode.SignalBase + int(sig), reason: why, time: time.Now().UnixNano()})
		c.endJob(0)
		c.giveUp = time.After(agentTimeout)
		return
	case unix.SIGTSTP:
		c.orderAll(&protocol.Order{Signal: int(unix.SIGSTOP)})
		if here {
			for _, n := range c.nodes[1:] {
				n.conn.Suspend() // node 0 stops, but has not died
			}
			c.local.stopSelf()
		}
		return
	case unix.SIGCONT:
		for _, n := range c.nodes[1:] {
			n.conn.Resume()
		}
	}
	c.orderAll(&protocol.Order{Signal: int(sig)})
}
