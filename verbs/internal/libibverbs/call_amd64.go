//go:build linux && !static

package libibverbs

// trampoline is the address of a function for C that makes a *call. It is in assembly.
func trampoline() uintptr
