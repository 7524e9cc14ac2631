package ticks

// Now returns the current count. Any goroutine may call it. Counts of different processors may differ by a little.
//
//go:noescape
func Now() uint64

// Steady reports whether the counter has a constant rate, at any frequency of the processor and also while it sleeps: CPUID
// 8000_0007h, EDX bit 8.
//
//go:noescape
func Steady() bool
