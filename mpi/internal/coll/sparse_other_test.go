//go:build !linux || race

package coll

import "testing"

// sparse returns memory of which all can be used. It is also that of the race detector, which knows only of the memory of Go:
// atomic operations on other memory order nothing for it.
func sparse(_ testing.TB, n, _ int) (mem []byte, allocate func([]byte) error) { return segment(n), nil }
