//go:build linux && !static && (amd64 || arm64)

package libibverbs

// direct calls a C function of the data path on the goroutine's own stack. It does not switch to the stack of the thread and does
// not notify the runtime, which saves 30 ns. Until the function returns, the runtime can neither stop this thread nor give its
// processor to another goroutine. So the function must not block, must not need more than 32 KiB of stack, and must not call Go.
// The functions that post and poll fulfil that. direct is written in assembly.
func direct(fn, a, b, c uintptr) uintptr
