//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// maxRecvBatch is the maximum number of receives that one call of ibv_post_recv takes.
const maxRecvBatch = 16

// recvQueue is the receive queue of a queue pair, or a shared receive queue: its methods Recv and RecvList.
type recvQueue struct {
	lib       *library
	call      string   // for errors
	fn        *uintptr // in struct ibv_context
	queue     uintptr
	maxSGE    int
	wrs       []ibv.RecvWR // of one call, linked in this order; grows to the longest list
	firstAddr uintptr      // address of wrs[0]
	sge       []ib.SGE     // the lists of wrs, maxSGE entries for each
	badWR     *uintptr
	badWRAddr uintptr // address of *badWR, where C writes the address of the request that it refused
}

func (r *recvQueue) init(lib *library, call string, fn *uintptr, queue uintptr, sge uint32) {
	bad, badAt := onHeap[uintptr](1)
	*r = recvQueue{lib: lib, call: call, fn: fn, queue: queue, maxSGE: int(sge), badWR: &bad[0], badWRAddr: badAt}
	r.grow(1)
}

// grow makes room for n receives.
func (r *recvQueue) grow(n int) {
	lists := max(r.maxSGE, 1)
	var listAt uintptr
	r.wrs, r.firstAddr = onHeap[ibv.RecvWR](n)
	r.sge, listAt = onHeap[ib.SGE](n * lists)
	for i := range r.wrs {
		r.wrs[i].SGList = listAt + uintptr(i*lists)*sgeSize
	}
}

// Recv posts one request. The device sees it immediately.
func (r *recvQueue) Recv(id uint64, sge []ib.SGE) error {
	if len(sge) > r.maxSGE {
		return failed(r.call, int32(syscall.EINVAL))
	}
	w := &r.wrs[0]
	w.WRID, w.Next, w.NumSGE = id, 0, copyList(r.sge, sge)
	if errno := r.submit(); errno != 0 {
		return postError(r.call, errno)
	}
	return nil
}

// RecvList posts as many requests as fit by each call.
func (r *recvQueue) RecvList(list []ib.RecvWR) (posted int, err error) {
	if r.maxSGE == 0 {
		return 0, failed(r.call, int32(syscall.EINVAL))
	}
	if n := min(len(list), maxRecvBatch); n > len(r.wrs) {
		r.grow(n)
	}
	for posted < len(list) {
		n := min(len(list)-posted, len(r.wrs))
		for i := range n {
			w := &r.wrs[i]
			w.WRID, w.Next, w.NumSGE = list[posted+i].ID, r.firstAddr+uintptr(i+1)*recvWRSize, 1
			r.sge[i*r.maxSGE] = list[posted+i].SGE
		}
		r.wrs[n-1].Next = 0
		if errno := r.submit(); errno != 0 {
			return posted + r.queued(n), postError(r.call, errno)
		}
		posted += n
	}
	return posted, nil
}

// submit posts the requests in wrs with one call.
func (r *recvQueue) submit() (errno int32) {
	*r.badWR = 0
	return int32(r.lib.callDataPath(*r.fn, r.queue, r.firstAddr, r.badWRAddr))
}

// queued returns how many of n requests were queued by a submit that has failed: those before the one that was refused.
func (r *recvQueue) queued(n int) int {
	before := (*r.badWR - r.firstAddr) / recvWRSize
	if *r.badWR < r.firstAddr || before >= uintptr(n) {
		return 0 // the driver does not say, or names none of the requests
	}
	return int(before)
}
