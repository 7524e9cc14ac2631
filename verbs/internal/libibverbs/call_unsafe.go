//go:build linux && !static && (amd64 || arm64)

package libibverbs

// Unsafe because arguments of C functions are addresses of Go memory. The memory is in the heap, which does not move, and is
// reachable during the call. It also imports unsafe for go:linkname.

import (
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// bindMW binds a memory window as described by b, which must be in the heap. It returns errno.
func (l *library) bindMW(fn, qp, mw uintptr, b *ibv.MWBind) int32 {
	r := l.callDataPath(fn, qp, mw, uintptr(unsafe.Pointer(b)))
	runtime.KeepAlive(b)
	return int32(r)
}

// Poll makes one call, also if the queue is empty.
func (q *cq) Poll(wc []ib.WC) (int, error) {
	if len(wc) == 0 {
		return 0, nil
	}
	q.firstWC = &wc[0] // so the completions escape to the heap: a stack may move
	n := int(int32(q.ctx.lib.callDataPath(q.ctx.ibvCtx.Ops.PollCQ, q.ptr, uintptr(len(wc)), uintptr(unsafe.Pointer(q.firstWC)))))
	q.firstWC = nil
	switch {
	case n == 0:
		return 0, nil
	case n < 0:
		return 0, failed("ibv_poll_cq", 0) // drivers return numbers of their own, not errno
	}
	q.countCompletions(wc[:n])
	return n, nil
}

// procPin keeps the goroutine on its processor (P) and thread until procUnpin, and returns the number of the processor. No other
// goroutine runs on the processor meanwhile. Package sync has no public function for that.
//
//go:linkname procPin runtime.procPin
func procPin() int

// procUnpin ends procPin.
//
//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// endOf returns the address after the last byte of mapped memory.
func endOf(mem []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) + uintptr(len(mem))
}

// invoke calls a function of struct ibv_context whose arguments are addresses of C memory and numbers.
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
