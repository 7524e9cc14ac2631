//go:build !linux

package processor

// Yield does nothing: only on Linux can an engine be woken by another process.
func Yield() {}
