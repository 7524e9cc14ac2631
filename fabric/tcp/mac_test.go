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
		labelHello:     "09596c46ac6b4673cafc3bc1746a23ea56aa48421afd78e8d9c6c7735d2dd3c8",
		labelChallenge: "f3552421cdbda3d28c0706c117e488d4bd4c0b69a89407b030ccb7fbc79d340a",
		labelProof:     "3e96770f09fc10a5ae974c712b80b21b470e4fd9dadbca6494a207554a54c910",
		labelAccept:    "c982ab44869ab450eb323780ca89e4e8a527dd21d6709ed5deac4eadad184330",
		labelDuplicate: "6d399041dc1a033ccc6dbf221a85d763381051333ce9e0dd3dcf2c003cad785c",
	} {
		if got := hex.EncodeToString(x.mac(&key, label)); got != want {
			t.Errorf("%s: MAC %s, want %s", label, got, want)
		}
	}
}
