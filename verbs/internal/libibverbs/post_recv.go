//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// recvQueue is the receive queue of a queue pair, or a shared receive queue: its method Recv.
type recvQueue struct {
	lib       *library
	call      string   // for errors
	fn        *uintptr // in struct ibv_context
	queue     uintptr
	wr        *ibv.RecvWR
	wrAddr    uintptr
	sge       []ib.SGE
	badWR     *uintptr
	badWRAddr uintptr // address of *badWR
}

func (r *recvQueue) init(lib *library, call string, fn *uintptr, queue uintptr, sge uint32) {
	bad, badAt := onHeap[uintptr](1)
	wr, wrAt := onHeap[ibv.RecvWR](1)
	list, listAt := onHeap[ib.SGE](int(sge))
	wr[0].SGList = listAt
	*r = recvQueue{lib: lib, call: call, fn: fn, queue: queue, wr: &wr[0], wrAddr: wrAt, sge: list, badWR: &bad[0], badWRAddr: badAt}
}

// Recv posts one request. The device sees it immediately.
func (r *recvQueue) Recv(id uint64, sge []ib.SGE) error {
	if len(sge) > len(r.sge) {
		return failed(r.call, int32(syscall.EINVAL))
	}
	r.wr.WRID = id
	r.wr.NumSGE = copyList(r.sge, sge)
	if errno := int32(r.lib.callDataPath(*r.fn, r.queue, r.wrAddr, r.badWRAddr)); errno != 0 {
		return postError(r.call, errno)
	}
	return nil
}
