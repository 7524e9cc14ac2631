//go:build linux

package rdma

import (
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// TestPlayedHeals: the queue pair for datagrams fails when the link is down, and not everything that it had queued has been
// taken back when it is made to work again. It then expects as many datagrams as before, and can send as many.
func TestPlayedHeals(t *testing.T) {
	net, ds := openPlayed(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	meet(t, a, b)
	rested(t, a, b)
	for range 3 {
		net.Down(true)
		for range 2 {
			if err := a.sendCM(a.eps[1], cmREQ, qpInfo{}); err != nil {
				t.Fatal(err)
			}
		}
		net.Down(false)
		for range 5 { // the first Poll after each sleep looks at the clock, and heals
			armed(t, a)
			polls(t, a, 1)
		}
		polls(t, a, 2*maxStride)
	}
	if a.cm.failed || len(a.cm.freeSends) != cmSends {
		t.Errorf("sick %v, and %d datagrams may be sent", a.cm.failed, len(a.cm.freeSends))
	}
	r := a.rails[0]
	if err := r.ud.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	var wcs [2 * cmRecvs]verbs.WC
	if n, err := r.recvCQ.Poll(wcs[:]); n != cmRecvs || err != nil {
		t.Errorf("%d datagrams were expected in place of %d: %v", n, cmRecvs, err)
	}
}
