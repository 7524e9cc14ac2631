package rdma

import (
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

// The caller may restrict a transfer to one rail, by the endpoint that WithRail returns. Other
// transfers that are long enough are striped over all lanes of the connection, as Op.NextCarriers of
// internal/transfer and Lanes of internal/posting decide.

var _ fabric.MultiRail = (*domain)(nil)

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
