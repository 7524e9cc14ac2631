package main

import "testing"

// TestLoadOfPMI: two nodes exchange 100 KB of every rank, more than the sockets between ibrun and its agents can hold.
func TestLoadOfPMI(t *testing.T) {
	newNodes(t, 2).start(0, "-n", "64", "rank", "pmi-load", "100").wantCode(0, "")
}
