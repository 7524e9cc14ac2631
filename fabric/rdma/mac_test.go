package rdma

import (
	"encoding/hex"
	"testing"
)

// TestMACFormat compares the MAC of a datagram and the Q_Key with those of the version of the protocol that is in use:
// peers of other builds must compute the same.
func TestMACFormat(t *testing.T) {
	key := [32]byte{1, 31: 2}
	_, b := sampleCMMessage(&key)
	const want = "c9baba549e1ec60eba4ba253c67f1e35562849f239e6917c31a0f3f22eb1cbb4"
	if got := hex.EncodeToString(b[len(b)-macBytes:]); got != want {
		t.Errorf("MAC %s, want %s", got, want)
	}
	tr := &Transport{Key: key}
	if got, want := tr.qkey(), uint32(0x5d5c74a); got != want {
		t.Errorf("Q_Key %#x, want %#x", got, want)
	}
}
