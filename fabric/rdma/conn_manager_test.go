//go:build linux

package rdma

import (
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/verbs"
)

// TestSimulatedCMRecovers: the UD queue pair fails when the link is down. Not all of its requests have completed when it is
// recovered. After that, it has as many receives posted as before, and can send as many datagrams.
func TestSimulatedCMRecovers(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	connectPeers(t, a, b)
	pollUntilIdle(t, a, b)
	for range 3 {
		net.SetLinkDown(true)
		for range 2 {
			if err := a.eps[1].sendCM(cm.REQ, cm.QP{}); err != nil {
				t.Fatal(err)
			}
		}
		net.SetLinkDown(false)
		for range 5 { // the first Poll after each sleep reads the clock, and recovers the queue pair
			armsReady(t, a)
			pollTimes(t, a, 1)
		}
		pollTimes(t, a, 2*liveness.MaxStride)
	}
	if a.cm.Socket.Failed || a.cm.Socket.Free() != devices.DatagramSends {
		t.Errorf("failed %v, and %d datagrams can be sent", a.cm.Socket.Failed, a.cm.Socket.Free())
	}
	r := a.rails[0]
	if err := r.UDs()[0].Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	var wcs [2 * devices.DatagramRecvs]verbs.WC
	if n, err := r.RecvCQ.Poll(wcs[:]); n != devices.DatagramRecvs || err != nil {
		t.Errorf("%d receives were posted in place of %d: %v", n, devices.DatagramRecvs, err)
	}
}
