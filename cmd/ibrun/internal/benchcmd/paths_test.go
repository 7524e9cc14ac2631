package benchcmd

import (
	"testing"

	"github.com/ibrun/ibrun/bench"
)

// TestCompareProtocols: the best protocol is that of the even rounds, whether the unit is a time or a rate, and the figures are
// those of the odd rounds. What was fast by luck in even rounds only does not look better than it is.
func TestCompareProtocols(t *testing.T) {
	names := []string{"auto", "parts", "read"}
	rounds := [][]float64{{9, 8, 9, 8}, {5, 10, 5, 10}, {6, 4, 6, 4}}
	for unit, w := range map[bench.Unit]line{
		bench.Microseconds:    {Peer: 10, PeerName: "parts", Ratio: 1.25},
		bench.MegabytesPerSec: {Peer: 4, PeerName: "read", Ratio: 2},
	} {
		l := compareChoice(bench.Op{Name: "latency", Unit: unit}, 2, 4096, names, rounds)
		if l.Ours != 8 || l.Peer != w.Peer || l.PeerName != w.PeerName || l.Ratio != w.Ratio || l.Low != w.Ratio || l.High != w.Ratio ||
			l.Size != 4096 || len(l.Protocols) != 2 || l.Protocols["parts"] != 10 || l.Protocols["read"] != 4 {
			t.Errorf("%s: %+v, want %+v", unit, l, w)
		}
	}
}
