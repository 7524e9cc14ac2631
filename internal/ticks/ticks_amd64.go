package ticks

// Now is the present count. Any goroutine may call it. Counts of different processors may differ by a little.
//
//go:noescape
func Now() uint64

// Steady tells whether the counter runs at a constant rate, whatever the processor's frequency and also while it sleeps: CPUID
// 8000_0007h, EDX bit 8.
//
//go:noescape
func Steady() bool
