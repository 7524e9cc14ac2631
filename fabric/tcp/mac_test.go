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
		labelHello:     "c7e5ea13889e244b84f06b8cee943f7527f54c1ea2a8c3c0f0ebdfa42adaf194",
		labelChallenge: "dba52d784ef897a529aa205e38c73846e371355e337d249f6155daa8a3bd31c3",
		labelProof:     "412549f466d10dc065bff4059c017d82040e1a311cb1d76854dd97104bf13869",
		labelAccept:    "a5f305a4ab894bc134e88d01361144b36991f28f5d6c745120471732db0f473b",
		labelDuplicate: "bd2c285efb19539f594f0fa8e885a222362a4bfea00f8c1f37afc0b522b4b031",
	} {
		if got := hex.EncodeToString(x.mac(&key, label)); got != want {
			t.Errorf("%s: MAC %s, want %s", label, got, want)
		}
	}
}
