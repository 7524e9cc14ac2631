package tcp

import (
	"encoding/hex"
	"testing"
)

// TestMACFormat compares the MACs of a handshake with those of the version of the protocol that is in use: peers of
// other builds must compute the same.
func TestMACFormat(t *testing.T) {
	x, key := testTranscript()
	x.nonce[7] = 9
	for label, want := range map[string]string{
		labelHello:     "817a55b6a163ded360e1101073cfe45d432bb684cec2095129dee21b2f9e661a",
		labelChallenge: "4dd6f4da23d84f079feb38f18045c32e0896455680bda7e729befb6d7bd8ffdd",
		labelProof:     "a4d18a703fe09bc70d0f53187ba4e486cc257467589afb5c22bdb528f8e284b7",
		labelAccept:    "565d354bf311e6a2b109b19251ebbe29a3dede533855311d148acc2c3246650e",
		labelDuplicate: "61a5c6784d9ab4d588ae1c4e9485a1607ac2822f93a8e5b006b4ad578491f020",
	} {
		if got := hex.EncodeToString(x.mac(&key, label)); got != want {
			t.Errorf("%s: MAC %s, want %s", label, got, want)
		}
	}
}
