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
		labelHello:     "7ac72c6deb10b3b211907af774429d215bf58393dbce8016ae3d7416450fbfdb",
		labelChallenge: "9e4cff36593965f1718719f2ecef992912dc8596391084c79bc24a933ac59be6",
		labelProof:     "132bc2a89725396f14289d2d63836b8d1439a95209b2d52bfaf488f64520a976",
		labelAccept:    "a853b422f4f31a4486581be4cd0c270a5199fa07ba16badf9b2a5c25867ecde4",
		labelDuplicate: "c139b6f9a76255af464e732b2daffa6d4a4ba24891c3f1fe31885b74fef30920",
	} {
		if got := hex.EncodeToString(x.mac(&key, label)); got != want {
			t.Errorf("%s: MAC %s, want %s", label, got, want)
		}
	}
}
