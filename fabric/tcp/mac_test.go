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
		labelHello:     "992f7a9deb734b766f627416ac8d7af4804fc8ddb2d02ff022578727abd5057e",
		labelChallenge: "14bb48670e3fc16fd6d2a296fff2c90bdb03244157ca16b635640e5d6e90c45a",
		labelProof:     "73f7594bfcef0de69aeb51922b393f11071ae787b299e78195efb16c24a70abf",
		labelAccept:    "23a49760a19bfb3c4704afa1e3a7f8b4e694d3d9c9d79534c97ab49dbd93a482",
		labelDuplicate: "ad23e537148b44f979ca22a31d48cf0a319c24ef80ef704ee7f9a82ad03859a6",
	} {
		if got := hex.EncodeToString(x.mac(&key, label)); got != want {
			t.Errorf("%s: MAC %s, want %s", label, got, want)
		}
	}
}
