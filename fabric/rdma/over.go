package rdma

import (
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

var _ fabric.MultiRail = (*domain)(nil)

// railed is an endpoint whose transfers take one rail.
type railed struct {
	*endpoint
	rail int8
}

func (r *railed) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	return r.transfer(false, dst, local, src, token, r.rail)
}

func (r *railed) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, token uint64) (bool, error) {
	return r.transfer(true, src, local, dst, token, r.rail)
}

func (d *domain) Rails() []string { return slices.Clone(d.set.Devices) }

// WithRail is ep itself if the peers do not both have that rail.
func (d *domain) WithRail(ep fabric.Endpoint, rail int) fabric.Endpoint {
	e, ok := ep.(*endpoint)
	if !ok || rail < 0 || rail >= min(len(d.rails), len(e.at.rails)) {
		return ep
	}
	if e.over == nil {
		e.over = make([]railed, min(len(d.rails), len(e.at.rails)))
		for i := range e.over {
			e.over[i] = railed{e, int8(i)}
		}
	}
	return &e.over[rail]
}
