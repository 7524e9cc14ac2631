//go:build !linux || race

package coll

import "testing"

// sparse returns memory of which all can be used. It is used with the race detector as well, which knows only the memory of Go:
// it sees no order in atomic operations on other memory.
func sparse(_ testing.TB, n, _ int) (mem []byte, allocate func([]byte) error) { return segment(n), nil }
