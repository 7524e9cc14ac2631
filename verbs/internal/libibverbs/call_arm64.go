//go:build linux && !static

package libibverbs

// trampoline is 0: there is no assembly for this processor.
func trampoline() uintptr { return 0 }
