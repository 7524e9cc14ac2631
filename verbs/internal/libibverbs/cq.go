//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// channel is struct ibv_comp_channel.
type channel struct {
	ctx *context
	ptr uintptr
	fd  int
}

func (x *context) CreateChannel() (ib.Channel, error) {
	ptr, err := x.lib.create("ibv_create_comp_channel", func() uintptr { return x.lib.createChannel(x.ptr) })
	if err != nil {
		return nil, err
	}
	c := &channel{ctx: x, ptr: ptr, fd: int(structAt[ibv.CompChannel](ptr).FD)}
	if err := syscall.SetNonblock(c.fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("make the descriptor of a completion channel non-blocking: %w", err), c.Close())
	}
	return c, nil
}

func (c *channel) FD() int { return c.fd }

func (c *channel) Close() error {
	return c.ctx.lib.do("ibv_destroy_comp_channel", func() int32 { return c.ctx.lib.destroyChannel(c.ptr) })
}

// cq is struct ibv_cq.
type cq struct {
	ctx   *context
	ptr   uintptr
	token uint64

	firstWC *ib.WC // the completions that a poll fills

	mu         sync.Mutex
	sendSpaces map[uint32]*sendSpace // by queue pair number, for the pairs whose sends complete here

	// lastSpace is the entry of sendSpaces that was found last, or nil. The next completion is often of the same queue pair, and
	// then needs no lock. It is stored with mu held, so that it is never an entry that sendSpaces does not have any more.
	lastSpace atomic.Pointer[sendSpace]
}

func (x *context) CompVectors() int { return int(x.ibvCtx.NumCompVectors) }

func (x *context) CreateCQ(n int, ch ib.Channel, vector int) (ib.CQ, error) {
	var channelPtr uintptr
	if ch != nil {
		channelPtr = ch.(*channel).ptr
	}
	q := &cq{ctx: x, token: x.newToken(), sendSpaces: map[uint32]*sendSpace{}}
	var err error
	q.ptr, err = x.lib.create("ibv_create_cq", func() uintptr {
		return x.lib.createCQ(x.ptr, int32(n), uintptr(q.token), channelPtr, int32(vector))
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (q *cq) Len() int      { return int(structAt[ibv.CQ](q.ptr).CQE) }
func (q *cq) Token() uint64 { return q.token }

// countCompletions processes the completions that C wrote: it counts those of sends in their send queues. The opcode of a failed
// completion is not valid, so a failed receive counts as a send.
func (q *cq) countCompletions(wc []ib.WC) {
	for i := range wc {
		ok := uverbs.WCStatus(wc[i].Status) == uverbs.WCSuccess
		if ok && uverbs.WCOpcode(wc[i].Opcode)&uverbs.WCRecv != 0 {
			wc[i].Flags = q.ctx.wcFlags(wc[i].Flags)
			continue
		}
		if r := q.sendSpaceOf(wc[i].QPN); r != nil {
			r.completed(ok)
		}
	}
}

// sendSpaceOf returns the sendSpace of a queue pair whose sends complete here, or nil.
func (q *cq) sendSpaceOf(qpn uint32) *sendSpace {
	if r := q.lastSpace.Load(); r != nil && r.qpn == qpn {
		return r
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.sendSpaces[qpn]
	if r != nil {
		q.lastSpace.Store(r)
	}
	return r
}

// kernelWithInv is IB_WC_WITH_INVALIDATE. The kernel's rxe writes completions for user space with the kernel's internal flags,
// and the library returns them unchanged. As a flag of the library this one means IBV_WC_IP_CSUM_OK.
const kernelWithInv uverbs.WCFlags = 1 << 2

// wcFlags converts the flags of a receive to enum ibv_wc_flags.
func (x *context) wcFlags(f uint32) uint32 {
	if w := uverbs.WCFlags(f); x.rxe && w&kernelWithInv != 0 {
		return uint32(w&^kernelWithInv | uverbs.WCWithInv)
	}
	return f
}

// addQP counts the completions of a queue pair in its sendSpace from now on.
func (q *cq) addQP(r *sendSpace) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sendSpaces[r.qpn] = r
	q.lastSpace.Store(nil) // it may be of an earlier pair with this number
}

// removeQP ends addQP, unless the device has given the number to another queue pair meanwhile.
func (q *cq) removeQP(r *sendSpace) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sendSpaces[r.qpn] == r {
		delete(q.sendSpaces, r.qpn)
		q.lastSpace.Store(nil)
	}
}

func (q *cq) Notify(solicited bool) error {
	return q.ctx.lib.do("ibv_req_notify_cq", func() int32 {
		return int32(invoke(q.ctx.ibvCtx.Ops.ReqNotifyCQ, q.ptr, uintptr(bool8(solicited))))
	})
}

// AckEvents does nothing, because ReadEvents has acknowledged the events.
func (q *cq) AckEvents(int) {}

func (q *cq) Resize(n int) error {
	return q.ctx.lib.do("ibv_resize_cq", func() int32 { return q.ctx.lib.resizeCQ(q.ptr, int32(n)) })
}

func (q *cq) Close() error {
	return q.ctx.lib.do("ibv_destroy_cq", func() int32 { return q.ctx.lib.destroyCQ(q.ptr) })
}
