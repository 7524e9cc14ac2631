//go:build !amd64

package perf

// counter is not used here: the system's clock is.
func counter() uint64 { return 0 }

// steadyCounter tells that there is no counter that this package knows to read.
func steadyCounter() bool { return false }
