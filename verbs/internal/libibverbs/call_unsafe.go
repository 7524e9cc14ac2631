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

// bindMW binds a memory window as b says, which is part of an object on the heap. It returns errno.
func (l *library) bindMW(fn, qp, mw uintptr, b *ibv.MWBind) int32 {
	r := l.enter(fn, qp, mw, uintptr(unsafe.Pointer(b)))
	runtime.KeepAlive(b)
	return int32(r)
}

// Poll makes one call, also when there is nothing.
func (q *cq) Poll(wc []ib.WC) (int, error) {
	if len(wc) == 0 {
		return 0, nil
	}
	q.first = &wc[0] // and so they are on the heap: a stack may move
	n := int(int32(q.x.lib.enter(q.x.c.Ops.PollCQ, q.ptr, uintptr(len(wc)), uintptr(unsafe.Pointer(q.first)))))
	q.first = nil
	switch {
	case n == 0:
		return 0, nil
	case n < 0:
		return 0, failed("ibv_poll_cq", 0) // drivers give numbers of their own, not errno
	}
	q.polled(wc[:n])
	return n, nil
}

// directGo is what direct does, by way of purego: on the stack of the thread, and C may call Go.
func directGo(fn, a, b, c uintptr) uintptr { return invoke(fn, a, b, c) }

// invoke calls a function of the context's table that takes addresses of C and numbers.
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
