//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// channel is struct ibv_comp_channel.
type channel struct {
	x   *context
	ptr uintptr
	fd  int
}

func (x *context) CreateChannel() (ib.Channel, error) {
	ptr, err := x.lib.create("ibv_create_comp_channel", func() uintptr { return x.lib.createChannel(x.ptr) })
	if err != nil {
		return nil, err
	}
	c := &channel{x: x, ptr: ptr, fd: int(at[ibv.CompChannel](ptr).FD)}
	if err := syscall.SetNonblock(c.fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("make the descriptor of a channel non-blocking: %w", err), c.Close())
	}
	return c, nil
}

func (c *channel) FD() int { return c.fd }

func (c *channel) Close() error {
	return c.x.lib.do("ibv_destroy_comp_channel", func() int32 { return c.x.lib.destroyChannel(c.ptr) })
}

// cq is struct ibv_cq.
type cq struct {
	x     *context
	ptr   uintptr
	token uint64

	first *ib.WC // that a poll may fill

	mu    sync.Mutex
	sends map[uint32]*room // by queue pair number, of those whose sends complete here
}

func (x *context) CreateCQ(n int, ch ib.Channel, vector int) (ib.CQ, error) {
	var channelPtr uintptr
	if ch != nil {
		channelPtr = ch.(*channel).ptr
	}
	q := &cq{x: x, token: x.token(), sends: map[uint32]*room{}}
	var err error
	q.ptr, err = x.lib.create("ibv_create_cq", func() uintptr {
		return x.lib.createCQ(x.ptr, int32(n), uintptr(q.token), channelPtr, int32(vector))
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (q *cq) Len() int      { return int(at[ibv.CQ](q.ptr).CQE) }
func (q *cq) Token() uint64 { return q.token }

// polled goes through the completions that C wrote. Send queues are told which requests are over. The opcode of a failed
// completion means nothing, so that of a receive counts as one of a send.
func (q *cq) polled(wc []ib.WC) {
	for i := range wc {
		ok := uverbs.WCStatus(wc[i].Status) == uverbs.WCSuccess
		if ok && uverbs.WCOpcode(wc[i].Opcode)&uverbs.WCRecv != 0 {
			wc[i].Flags = q.x.flags(wc[i].Flags)
			continue
		}
		if r := q.sender(wc[i].QPN); r != nil {
			r.completed(ok)
		}
	}
}

// sender is the room of a queue pair whose sends complete here, or nil.
func (q *cq) sender(qpn uint32) *room {
	q.mu.Lock()
	r := q.sends[qpn]
	q.mu.Unlock()
	return r
}

// kernelWithInv is IB_WC_WITH_INVALIDATE. The kernel's rxe writes completions for user space with the kernel's own flags, and the
// library passes them on, where this one means IBV_WC_IP_CSUM_OK.
const kernelWithInv uverbs.WCFlags = 1 << 2

// flags are the flags of a receive as enum ibv_wc_flags.
func (x *context) flags(f uint32) uint32 {
	if w := uverbs.WCFlags(f); x.rxe && w&kernelWithInv != 0 {
		return uint32(w&^kernelWithInv | uverbs.WCWithInv)
	}
	return f
}

func (q *cq) watch(qpn uint32, r *room) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sends[qpn] = r
}

// forget ends watch, unless the device has given the number to another queue pair since.
func (q *cq) forget(qpn uint32, r *room) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sends[qpn] == r {
		delete(q.sends, qpn)
	}
}

func (q *cq) Notify(solicited bool) error {
	return q.x.lib.do("ibv_req_notify_cq", func() int32 {
		return int32(invoke(q.x.c.Ops.ReqNotifyCQ, q.ptr, uintptr(flag(solicited))))
	})
}

// AckEvents does nothing: ReadEvents has acknowledged them.
func (q *cq) AckEvents(int) {}

func (q *cq) Resize(n int) error {
	return q.x.lib.do("ibv_resize_cq", func() int32 { return q.x.lib.resizeCQ(q.ptr, int32(n)) })
}

func (q *cq) Close() error {
	return q.x.lib.do("ibv_destroy_cq", func() int32 { return q.x.lib.destroyCQ(q.ptr) })
}
