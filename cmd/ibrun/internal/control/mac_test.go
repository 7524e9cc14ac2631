package control

import (
	"encoding/hex"
	"testing"
)

// TestMACFormat compares proofs, tags and keys with those of the version of the protocol that is in use: nodes of other
// builds must compute the same.
func TestMACFormat(t *testing.T) {
	s := testSecret(1)
	key, err := s.Derive([]byte("salt"), "job x")
	if err != nil {
		t.Fatal(err)
	}
	handshake := s.Transcript([]byte("hello"), []byte("said"))
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"key":             {key[:], "15aacd08172a5d909f53476b6170250e2d330053ce30c68882a23f377a3ddae7"},
		"proof of node 0": {handshake.MAC(roleCoordinator), "3f48097d218ed15c671d18d248a20f8b643ee5c910ce4e65dd7e05f314ce1a4f"},
		"proof of a node": {handshake.MAC(roleNode), "46e169aaa89b253a1589fda95ac0388e803cefb2e62c5d51fbeee76fe14f5126"},
		"tag": {key.FrameMAC(7, []byte("head"), []byte("body")),
			"1833799af03951058df84162f1c146c8cd29e28931f4f0e15d9c24b5330000cb"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
