//go:build !linux

package processor

// SchedYield does nothing: only on Linux can an engine be woken by another process.
func SchedYield() {}
