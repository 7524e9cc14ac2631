package rdma

import (
	"errors"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/verbs"
)

// A switch between two RoCE ports may have a smaller MTU than both. It drops large packets and passes small ones, so connections
// are made, and break at the first large message. That a connection is made again, and that small messages are acknowledged over
// it, does not end the series of failures. A request as large as the lost one must be acknowledged as well, see series.go. If
// connections break several times in a row, or one does after a third of the heartbeat, the next ones have packets that fit
// every Ethernet network. Both ends need the same MTU: a REQ names that of its sender, and a REP the smaller one of both. If
// connections still break, the peer is lost.

const (
	smallMTU      = verbs.MTU1024 // fits Ethernet frames of 1,500 bytes
	smallestLarge = 1024          // bytes of a packet from which packets may be smaller than that
	smallestMTU   = 256           // bytes of the smallest MTU
)

// countLost records that a connection breaks because a request was not acknowledged. What is lost on another lane than that of
// messages tells nothing about packets: its cable may be pulled. It is sent again on this one.
func (e *endpoint) countLost(q *posting.QueuePair, r *posting.Request, err error) {
	e.countWorked() // must be first: it may set e.retry.lost to 0
	if !q.IsMessages() || !errors.Is(err, verbs.StatusRetryExceeded) {
		return
	}
	e.retry.CountPacket(min(r.Bytes, uint32(e.pathMTU().Bytes())))
}

// pathMTU returns the MTU of connections to the peer.
func (e *endpoint) pathMTU() verbs.MTU {
	mtu := min(e.d.rails[0].Address.MTU, e.addr.Rails[0].MTU)
	if e.mtu != 0 {
		return min(mtu, e.mtu)
	}
	return mtu
}

// takeMTU limits the packets to what reaches this process, as a peer says. 0 means no limit.
func (e *endpoint) takeMTU(mtu verbs.MTU) {
	if mtu != 0 && (e.mtu == 0 || mtu < e.mtu) {
		e.mtu = mtu
	}
}

// reduceMTU limits the packets of the next connection if only large requests were lost for a while, in a series that lasts so
// long. It reports whether it did.
func (e *endpoint) reduceMTU(lasts time.Duration) bool {
	d := e.d
	path := e.pathMTU()
	if e.mtu != 0 || path <= smallMTU || !e.retry.LosesLarge(smallestLarge, lasts, d.settings.Heartbeat) {
		return false
	}
	e.mtu = smallMTU
	if d.cm.report != nil && !d.cm.mtuReported {
		d.cm.mtuReported = true
		d.cm.report(fmt.Sprintf("RDMA packets of %v bytes to process %d are not acknowledged: packets have at most %v bytes from now "+
			"on; if a switch between the two has a smaller MTU, raise it, or set %s=%v", path, e.peer, smallMTU,
			tunables.RDMAMTU.Variable, smallMTU))
	}
	return true
}

// explainLost adds to the error of a lost peer that only large packets were lost.
func (c *connRetry) explainLost(err error) error {
	if !c.IsLossy() || c.Lost <= smallestMTU {
		return err
	}
	return &packetsLost{err, c.Lost}
}

// packetsLost is the error of a lost peer if only large packets were lost.
type packetsLost struct {
	err   error
	bytes uint32 // of the shortest one
}

func (p *packetsLost) Error() string {
	return fmt.Sprintf("%v; small packets arrive, large ones do not, such as those of %d bytes: check the MTU of the network, or "+
		"set %s=%d", p.err, p.bytes, tunables.RDMAMTU.Variable, smallestMTU)
}

func (p *packetsLost) Unwrap() error { return p.err }

// brief returns what a datagram has room for: the status, and what to do.
func (p *packetsLost) brief() error {
	return fmt.Errorf("%w; large packets are lost: set %s=%d", verbs.StatusRetryExceeded, tunables.RDMAMTU.Variable, smallestMTU)
}
