//go:build !amd64

package ticks

// Now is the present count. Any goroutine may call it.
func Now() uint64 { return nowGo() }

// Steady tells that there is no counter that this package knows to read.
func Steady() bool { return false }
