//go:build !linux

package coll

import "testing"

// sparse returns memory of which all can be used.
func sparse(_ testing.TB, n, _ int) (mem []byte, allocate func([]byte) error) { return segment(n), nil }
