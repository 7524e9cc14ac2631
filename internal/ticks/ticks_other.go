//go:build !amd64

package ticks

// Now returns the current count. Any goroutine may call it.
func Now() uint64 { return nowGo() }

// Steady returns false: this package cannot read a counter of this processor.
func Steady() bool { return false }
