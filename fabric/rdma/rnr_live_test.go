//go:build linux

package rdma

import (
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
)

// TestLiveNoNAK: however many messages are sent, none causes an RNR NAK.
func TestLiveNoNAK(t *testing.T) {
	live.NoNAK(t)
	for _, window := range []int{1, 3, 64} {
		w := openLocalPeers(t, Settings{Window: window, Pool: window * 6912 * 2})
		for n := range uint64(2000) {
			for i := range w.d {
				w.send(i, n)
			}
		}
		w.until("all messages", func() bool { return w.got == [2]uint64{2000, 2000} })
	}
}
