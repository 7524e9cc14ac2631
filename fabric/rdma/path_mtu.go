package rdma

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/verbs"
)

// A switch between two RoCE ports may have a smaller MTU than both. It drops large packets and passes small ones, so connections
// are made, and break at the first large message. If that happens several times in a row, the next connections have packets that
// fit every Ethernet network. Both ends need the same MTU: a REQ names that of its sender, and a REP the smaller one of both.

const (
	smallMTU      = verbs.MTU1024 // fits Ethernet frames of 1,500 bytes
	maxLargeLost  = 3             // connections that break because of large requests before packets become smaller
	smallestLarge = 1024          // bytes of a request from which packets may be larger than that
)

// acknowledged records that the peer has acknowledged a request of so many bytes.
func (e *endpoint) acknowledged(bytes uint32) {
	e.retry.breaks = 0
	if bytes > smallestLarge {
		e.retry.largeBreaks = 0
	}
}

// countLarge records that a connection breaks because a request was not acknowledged.
func (e *endpoint) countLarge(r *request, err error) {
	if r.bytes > smallestLarge && errors.Is(err, verbs.StatusRetryExceeded) {
		e.retry.largeBreaks++
	}
}

// takeMTU limits the packets to what reaches this process, as a peer says. 0 means no limit.
func (e *endpoint) takeMTU(mtu verbs.MTU) {
	if mtu != 0 && (e.mtu == 0 || mtu < e.mtu) {
		e.mtu = mtu
	}
}

// reduceMTU makes the packets of the next connection small if only large requests were lost in several connections in a row.
func (d *domain) reduceMTU(e *endpoint) {
	path := min(d.rails[0].address.MTU, e.addr.rails[0].MTU)
	if e.retry.largeBreaks < maxLargeLost || e.mtu != 0 || path <= smallMTU {
		return
	}
	e.mtu = smallMTU
	if d.report != nil && !d.mtuReported {
		d.mtuReported = true
		d.report(fmt.Sprintf("RDMA packets of %v bytes to process %d are lost, small ones arrive: packets have at most %v bytes from "+
			"now on; raise the MTU of the switches between the two, or set %s=%v", path, e.peer, smallMTU,
			tunables.RDMAMTU.Variable, smallMTU))
	}
}

// explainLarge adds to the error of a lost peer that only large requests were lost.
func (e *endpoint) explainLarge(err error) error {
	if e.retry.largeBreaks < maxLargeLost {
		return err
	}
	return fmt.Errorf("%w; small packets arrive, large ones do not: check the MTU of the network, or set %s=256", err,
		tunables.RDMAMTU.Variable)
}
