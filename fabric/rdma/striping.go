package rdma

import (
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
)

// Long transfers are striped over the lanes of a connection: each piece goes to the queue pair with the fewest requests in
// flight. The caller may restrict a transfer to one rail, see WithRail.

var _ fabric.MultiRail = (*domain)(nil)

// needsKeys reports whether a transfer is to use rails beyond the first: the rail that it is restricted to, or all rails if it
// is long enough for two pieces.
func (e *endpoint) needsKeys(o *transfer.Op) bool {
	if len(e.qps) == int(e.firstLanes) || o.Rail == 0 {
		return false
	}
	return o.Rail > 0 || o.Bytes >= 2*e.qps[0].rail.piece
}

// chooseQP returns the queue pair for the next piece of a transfer, nil if none has room. While the keys for other rails are
// being read, the first rail gets no more than its share, which is nothing if the transfer is restricted to another rail.
func (d *domain) chooseQP(e *endpoint, o *transfer.Op) *queuePair {
	qps := e.qps
	switch {
	case o.KeyState == transfer.KeysReading && (o.Rail > 0 || o.Posted >= o.Bytes*int(e.firstLanes)/len(qps)):
		return nil
	case o.KeyState != transfer.KeysReady:
		qps = qps[:e.firstLanes]
	case o.Rail > 0:
		qps = e.lanesOf(int(o.Rail))
	}
	var best *queuePair
	for _, q := range qps {
		room := q.pacer.Room() && d.hasRoom(q, shareTransfers)
		if room && (best == nil || q.inFlight() < best.inFlight()) {
			best = q
		}
	}
	return best
}

// lanesOf returns the lanes of a rail, all lanes if the connection does without that rail. The caller must hold domain.mu.
func (e *endpoint) lanesOf(rail int) []*queuePair {
	on := func(q *queuePair) bool { return q.rail.Index == rail }
	first := slices.IndexFunc(e.qps, on)
	if first < 0 {
		return e.qps
	}
	last := first + 1
	for last < len(e.qps) && on(e.qps[last]) {
		last++
	}
	return e.qps[first:last]
}

// railEndpoint is an endpoint whose transfers are restricted to one rail.
type railEndpoint struct {
	*endpoint
	rail int8
}

func (r *railEndpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	return r.transfer(false, dst, local, src, token, r.rail)
}

func (r *railEndpoint) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, token uint64) (bool, error) {
	return r.transfer(true, src, local, dst, token, r.rail)
}

func (d *domain) Rails() []string { return slices.Clone(d.settings.Devices) }

// WithRail returns ep itself if not both peers have that rail.
func (d *domain) WithRail(ep fabric.Endpoint, rail int) fabric.Endpoint {
	e, ok := ep.(*endpoint)
	if !ok || rail < 0 || rail >= min(len(d.rails), len(e.addr.Rails)) {
		return ep
	}
	if e.perRail == nil {
		e.perRail = make([]railEndpoint, min(len(d.rails), len(e.addr.Rails)))
		for i := range e.perRail {
			e.perRail[i] = railEndpoint{e, int8(i)}
		}
	}
	return &e.perRail[rail]
}
