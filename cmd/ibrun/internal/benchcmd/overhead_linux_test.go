package benchcmd

import "testing"

// TestOverhead measures with real ranks: a line for each size, as in versus.
func TestOverhead(t *testing.T) {
	lines := startLines(t, "overhead --op latency,allreduce --sizes 8,64K --rounds 7 --time 100us --json", 4)
	for i, l := range lines {
		if l.Op != []string{"latency", "allreduce"}[i/2] || l.Ranks != 2 || l.Size != []int{8, 64 << 10}[i%2] || l.PeerName != "off" ||
			l.Ratio != roundDigits(ratio(l.Unit, l.Ours, l.Peer)) && (l.Ratio < 0.99*l.Peer/l.Ours || l.Ratio > 1.01*l.Peer/l.Ours) {
			t.Errorf("%+v", l)
		}
	}
}
