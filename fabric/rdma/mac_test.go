package rdma

import "testing"

// TestQKeyFormat compares the Q_Key with that of the version of the protocol that is in use: peers
// of other builds must compute the same.
func TestQKeyFormat(t *testing.T) {
	tr := &Transport{Key: [32]byte{1, 31: 2}}
	if got, want := tr.qkey(), uint32(0x5d5c74a); got != want {
		t.Errorf("Q_Key %#x, want %#x", got, want)
	}
}
