//go:build linux && !static && (amd64 || arm64)

package libibverbs

// callOn calls a C function with the given stack pointer, which is a multiple of 16. The goroutine must be pinned to its
// processor. callOn is written in assembly. It does not notify the runtime: until the function returns, the runtime can neither
// stop the thread nor give its processor to another goroutine. So the function must not block and must not call Go.
//
// While the stack pointer is outside of the goroutine's stack, the runtime sees the goroutine only in handlers of signals, which
// have a stack of their own. They do not preempt it: C and assembly have no safe point, and the goroutine is pinned. The profiler
// ends its traceback at C code, and at functions like callOn that write the stack pointer. A fault ends the process, because the
// runtime does not turn a fault of a pinned goroutine into a panic.
func callOn(stack, fn, a, b, c uintptr) uintptr

// callOnGo is callOn on the stack of the thread. It notifies the runtime, and C may call Go.
func callOnGo(_, fn, a, b, c uintptr) uintptr { return onThread(fn, a, b, c) }

// onThread calls a C function on the stack of the thread, by means of purego.
func onThread(fn, a, b, c uintptr) uintptr { return invoke(fn, a, b, c) }
