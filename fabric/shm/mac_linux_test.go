package shm

import (
	"encoding/hex"
	"testing"
)

// TestMACFormat compares the name of a socket and the token of a segment with those of the version of the protocol that
// is in use: peers of other builds must compute the same.
func TestMACFormat(t *testing.T) {
	key := [32]byte{1, 31: 2}
	if got, want := socketAddress(key, 3).Name, "@ibrun-7c46b211266def5eb02cdf852382b21d"; got != want {
		t.Errorf("socket name %s, want %s", got, want)
	}
	token := derive(key, "segment", 0)
	if got, want := hex.EncodeToString(token[:]), "32c5917d0b7658f3f86de39601e621fdb12d09c76ed712e00da1ef5278101451"; got != want {
		t.Errorf("token %s, want %s", got, want)
	}
}
