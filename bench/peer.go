package bench

import _ "embed" // for the directive below

//go:embed testdata/peer.c
var peerSource string

// PeerSource is the C program that makes the same measurements over any MPI. Its head comment says how it is called.
func PeerSource() string { return peerSource }
