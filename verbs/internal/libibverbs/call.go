//go:build linux && !static && (amd64 || arm64)

package libibverbs

// direct calls a C function of the data path on the goroutine's own stack. Neither the runtime nor the stack of the thread has a
// part in it, which saves 30 ns: until the function returns the runtime can neither stop this thread nor use its processor
// otherwise. So it is for functions that do not wait and need no more than 32 KiB of stack, as those that post and poll, and it
// must not call Go. It is in assembly.
func direct(fn, a, b, c uintptr) uintptr
