//go:build linux && !static && (amd64 || arm64)

package libibverbs

// Unsafe because arguments of C functions are addresses of Go memory. They are of the heap, which does not move, and what
// they belong to is reachable during the call.

import (
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// call is a call of a function of the context's table, with three arguments. It is part of an object on the heap, because C
// reads it, and is used by one goroutine at a time. The assembly knows its layout up to result.
type call struct {
	fn     uintptr
	args   [3]uintptr
	result uintptr
	wc     *ib.WC // keeps completions on the heap, and reachable, while the call is made
}

// do makes the call, by the function of the runtime through which cgo and purego enter C. Where there is a trampoline that takes
// a third of the time of doGo, which lays out arguments for functions of any kind.
func (c *call) do() {
	if t := trampoline(); t != 0 {
		cgocall(t, unsafe.Pointer(c))
		return
	}
	c.doGo()
}

// cgocall lets its argument escape, so that a call is on the heap: C may call Go, whose stack may move then.
//
//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32

// doGo makes the call by way of purego, without an allocation: the list of arguments is there already.
func (c *call) doGo() { c.result, _, _ = purego.SyscallN(c.fn, c.args[:]...) }

// post hands a list of work requests to the device. It returns errno, and then C has written to bad the address of the first
// request that it refused.
func (c *call) post(fn, queue, list uintptr, bad *uintptr) int32 {
	c.fn, c.args = fn, [3]uintptr{queue, list, uintptr(unsafe.Pointer(bad))}
	c.do()
	runtime.KeepAlive(bad)
	return int32(c.result)
}

// poll takes completions from a queue. It returns their number or less than 0.
func (c *call) poll(fn, queue uintptr, wc []ib.WC) int32 {
	c.wc = &wc[0]
	c.fn, c.args = fn, [3]uintptr{queue, uintptr(len(wc)), uintptr(unsafe.Pointer(c.wc))}
	c.do()
	c.wc = nil
	return int32(c.result)
}

// bindMW binds a memory window as b says. It returns errno.
func (c *call) bindMW(fn, qp, mw uintptr, b *ibv.MWBind) int32 {
	c.fn, c.args = fn, [3]uintptr{qp, mw, uintptr(unsafe.Pointer(b))}
	c.do()
	runtime.KeepAlive(b)
	return int32(c.result)
}

// invoke calls a function of the context's table that takes addresses of C and numbers.
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
