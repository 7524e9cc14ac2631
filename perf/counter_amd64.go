package perf

// counter reads the time-stamp counter.
//
//go:noescape
func counter() uint64

// steadyCounter tells whether the time-stamp counter runs at a constant rate, whatever the processor's frequency and also
// while it sleeps: CPUID 8000_0007h, EDX bit 8.
//
//go:noescape
func steadyCounter() bool
