package datagrams

import (
	"errors"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/verbs"
)

// Destination is where datagrams to a peer go.
type Destination struct {
	verbs.Dest
	ud        *verbs.QP // our queue pair, which is in the partition of the peer's
	responder uint32    // number of the peer's queue pair that answers probes
	revision  uint16    // of our own address
	stale     bool      // is to be renewed if possible
}

// newDestination returns the destination of datagrams to a peer from the queue pair ud, which must
// be in the same partition. It blocks until the address is resolved.
func newDestination(ud *verbs.QP, peer cm.Datagrams, params verbs.Params) (*Destination, error) {
	dest, err := ud.DestWith(peer.At, params)
	if err != nil {
		return nil, err
	}
	return &Destination{Dest: dest, ud: ud, responder: peer.Responder}, nil
}

// close closes the address handle. An error means that the device is lost, which polling it
// reports.
func (t *Destination) close() {
	if t != nil {
		_ = t.AH.Close()
	}
}

// tryDestination makes the destination of datagrams to this process, and closes it: a device may
// refuse address handles. responders are those of [Responder.QueuePairs].
func tryDestination(r *devices.Rail, responders []*verbs.QP, params verbs.Params) error {
	own := r.RailAddress(responders)
	t, err := newDestination(r.UDs()[0], own.Datagrams(0), params)
	if devices.IsNoRoute(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return t.AH.Close()
}

// destinationError returns an error of making a destination: a [*devices.SetUpError], unless the
// address cannot be reached now.
func destinationError(err error) error {
	if errors.Is(err, verbs.ErrUnreachable) {
		return err
	}
	return &devices.SetUpError{Err: err}
}
