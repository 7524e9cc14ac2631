//go:build linux

package rdma

import (
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestReceiveOfControlFails: the receive of a credit update fails once, and the peer sends no data messages afterwards. Its next
// control message shows that none is missing, so the series ends.
func TestReceiveOfControlFails(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ds := openRails(t, net, Settings{}, 1)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	failed := false
	net.FailReceives(func(bytes int) verbs.Status {
		if bytes != headerBytes || failed {
			return verbs.StatusSuccess
		}
		failed = true
		return verbs.StatusLocalLength
	})
	r, arrived, most := &ds[0].eps[1].retry, 0, 0
	waittest.Poll(t, "messages arrive after the failure", func() bool {
		_ = ds[0].eps[1].Send([]byte("short"), nil) // there may be no credit, or no connection
		pollTimes(t, ds[0], 1)
		n := len(pollTimes(t, ds[1], 1))
		if r.failed > 0 {
			arrived += n
		}
		most = max(most, int(r.failed))
		return most > 0 && (r.failed == 0 || arrived > 1000)
	})
	if most != 1 || r.failed != 0 {
		t.Errorf("after %d messages %d attempts have failed, at most %d: %+v", arrived, r.failed, most, r.unfinished)
	}
}
