//go:build linux && !static && (amd64 || arm64)

package libibverbs

// Unsafe because the fake simulates C: it returns addresses of its objects and dereferences those that it receives.

import (
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// fake is a library with one device, whose queues the test fills and empties. Its control functions are Go functions in place of
// those that the linker finds. Those of struct ibv_context are called from C.
type fake struct {
	t     *testing.T
	lib   *library
	ctx   ibv.Context
	cq    ibv.CQ
	qp    ibv.QP
	srq   ibv.SRQ
	ah    ibv.AH
	errno int32

	freeSlots      int                // how many more requests the device takes
	nextErrors     []syscall.Errno    // what the next calls that post return
	postCalls      int                // number of calls that posted
	completedSends int                // number of sends that have completed
	sends          []ibv.SendWR       // requests that the device has taken
	lists          [][]ib.SGE         // copies of their lists
	data           [][]byte           // copies of the data of their first list entries
	recvs          []uint64           // IDs of receives that the device has taken
	wcs            []ib.WC            // completions that polls return
	compEvents     []uint64           // tokens of completion events to be read
	asyncEvents    []ibv.AsyncEvent   // asynchronous events to be read
	ackedAsync     []uverbs.EventType // asynchronous events that were acknowledged
	ackedComp      uint32             // number of completion events that were acknowledged
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, freeSlots: 1 << 20}
	f.ctx.Ops.PostSend = purego.NewCallback(f.postSend)
	f.ctx.Ops.PostRecv = purego.NewCallback(f.postRecv)
	f.ctx.Ops.PostSRQRecv = f.ctx.Ops.PostRecv
	f.ctx.Ops.PollCQ = purego.NewCallback(f.pollCQ)
	f.ctx.Ops.ReqNotifyCQ = purego.NewCallback(func(uintptr, uintptr) uintptr { return uintptr(syscall.EIO) })
	f.lib = &library{
		getDeviceName: func(uintptr) string { return "fake0" },
		openDevice:    func(uintptr) uintptr { return address(&f.ctx) },
		closeDevice:   func(uintptr) int32 { return 0 },
		getDeviceList: func(n *int32) uintptr { *n = 1; return address(&f.ctx.Device) },

		freeDeviceList: func(uintptr) {},
		allocPD:        func(uintptr) uintptr { f.errno = int32(syscall.EPERM); return 0 },
		queryPKey: func(_ uintptr, _ uint8, index int32, key *[2]byte) int32 {
			*key = [2]byte{0x7f, byte(index)}
			return -index
		},
		createCQ: func(_ uintptr, n int32, token, _ uintptr, _ int32) uintptr {
			f.cq = ibv.CQ{CQE: n, CQContext: token}
			return address(&f.cq)
		},
		createQP: func(_ uintptr, a *ibv.QPInitAttr) uintptr {
			f.qp = ibv.QP{QPNum: 17, QPContext: a.QPContext}
			return address(&f.qp)
		},
		modifyQP:  func(uintptr, *ibv.QPAttr, int32) int32 { return 0 },
		createSRQ: func(_ uintptr, a *ibv.SRQInitAttr) uintptr { f.srq.SRQContext = a.SRQContext; return address(&f.srq) },
		createAH:  func(uintptr, *ibv.AHAttr) uintptr { return address(&f.ah) },

		getCQEvent:    f.getCQEvent,
		ackCQEvents:   func(_ uintptr, n uint32) { f.ackedComp += n },
		getAsyncEvent: f.getAsyncEvent,
		ackAsyncEvent: func(e *ibv.AsyncEvent) { f.ackedAsync = append(f.ackedAsync, uverbs.EventType(e.EventType)) },
		errno:         func() *int32 { return &f.errno },
		callDataPath:  onThread,
	}
	return f
}

// newFakeOf returns a fake whose device takes n requests.
func newFakeOf(t *testing.T, n int) *fake {
	f := newFake(t)
	f.freeSlots = n
	return f
}

// complete completes all queued requests.
func (f *fake) complete() {
	for _, wr := range f.sends[f.completedSends:] {
		f.completedSends++
		if wr.SendFlags&signaled != 0 {
			f.wcs = append(f.wcs, ib.WC{ID: wr.WRID, QPN: f.qp.QPNum})
		}
	}
}

// context returns the open device, without the descriptor that Open configures.
func (f *fake) context() *context {
	return &context{lib: f.lib, ptr: address(&f.ctx), ibvCtx: &f.ctx}
}

// pair returns a queue pair and its completion queue.
func (f *fake) pair(c ib.Cap) (*qp, *cq) {
	f.t.Helper()
	x := f.context()
	q, err := x.CreateCQ(100, nil, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := (&pd{ctx: x}).CreateQP(ib.QPInit{SendCQ: q, RecvCQ: q, Cap: c})
	if err != nil {
		f.t.Fatal(err)
	}
	return p.(*qp), q.(*cq)
}

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

func (f *fake) nextError() uintptr {
	if f.freeSlots == 0 {
		return uintptr(syscall.ENOMEM)
	}
	if len(f.nextErrors) == 0 {
		return 0
	}
	e := f.nextErrors[0]
	f.nextErrors = f.nextErrors[1:]
	return uintptr(e)
}

func (f *fake) postSend(_, list, bad uintptr) uintptr {
	f.postCalls++
	for ; list != 0; list = structAt[ibv.SendWR](list).Next {
		if e := f.nextError(); e != 0 {
			*structAt[uintptr](bad) = list
			return e
		}
		wr := *structAt[ibv.SendWR](list)
		f.sends = append(f.sends, wr)
		f.lists = append(f.lists, nil)
		f.data = append(f.data, nil)
		if wr.NumSGE > 0 {
			sge := slices.Clone(unsafe.Slice(structAt[ib.SGE](wr.SGList), wr.NumSGE))
			f.lists[len(f.lists)-1] = sge
			if uverbs.SendFlags(wr.SendFlags)&uverbs.SendInline != 0 {
				f.data[len(f.data)-1] = slices.Clone(unsafe.Slice(structAt[byte](uintptr(sge[0].Addr)), sge[0].Len))
			}
		}
		f.freeSlots--
	}
	return 0
}

// checkSend compares a request that the device has taken with the one that was posted. It must not be a datagram.
func (f *fake) checkSend(i int, wr *ib.SendWR) {
	f.t.Helper()
	c, list, data := &f.sends[i], wr.SGE, []byte(nil)
	if len(wr.Inline) > 0 {
		list, data = []ib.SGE{{Addr: f.lists[i][0].Addr, Len: uint32(len(wr.Inline))}}, wr.Inline
	}
	ok := c.WRID == wr.ID && c.Opcode == wr.Opcode && c.SendFlags == wr.Flags && c.Ex == wr.Imm
	switch op := uverbs.WROpcode(wr.Opcode); op {
	case uverbs.WRRDMAWrite:
		ok = ok && *operation[ibv.RDMA](c) == ibv.RDMA{RemoteAddr: wr.Remote, RKey: wr.RKey}
	case uverbs.WRAtomicFetchAndAdd:
		ok = ok && *operation[ibv.Atomic](c) == ibv.Atomic{RemoteAddr: wr.Remote, CompareAdd: wr.Compare, Swap: wr.Swap, RKey: wr.RKey}
	}
	if !ok || !slices.Equal(f.lists[i], list) || !slices.Equal(f.data[i], data) {
		f.t.Errorf("request %d is %+v with %v and %v, want %+v", i, *c, f.lists[i], f.data[i], *wr)
	}
}

func (f *fake) postRecv(_, list, bad uintptr) uintptr {
	f.postCalls++
	for ; list != 0; list = structAt[ibv.RecvWR](list).Next {
		if e := f.nextError(); e != 0 {
			*structAt[uintptr](bad) = list
			return e
		}
		wr := structAt[ibv.RecvWR](list)
		f.recvs = append(f.recvs, wr.WRID)
		f.lists = append(f.lists, slices.Clone(unsafe.Slice(structAt[ib.SGE](wr.SGList), wr.NumSGE)))
		f.freeSlots--
	}
	return 0
}

func (f *fake) pollCQ(_, n, wc uintptr) uintptr {
	if f.wcs == nil {
		return 0
	}
	if len(f.wcs) == 0 { // simulates a broken queue
		return uintptr(0xfffffffe) // -2 as an int
	}
	k := copy(unsafe.Slice(structAt[ib.WC](wc), n), f.wcs)
	f.wcs = f.wcs[k:]
	if len(f.wcs) == 0 {
		f.wcs = nil
	}
	return uintptr(k)
}

func (f *fake) getCQEvent(_ uintptr, q, token *uintptr) int32 {
	if len(f.compEvents) == 0 {
		f.errno = int32(syscall.EAGAIN)
		return -1
	}
	*q, *token = address(&f.cq), uintptr(f.compEvents[0])
	f.compEvents = f.compEvents[1:]
	return 0
}

func (f *fake) getAsyncEvent(_ uintptr, e *ibv.AsyncEvent) int32 {
	if len(f.asyncEvents) == 0 {
		f.errno = int32(syscall.EAGAIN)
		return -1
	}
	*e = f.asyncEvents[0]
	f.asyncEvents = f.asyncEvents[1:]
	return 0
}

// stub returns a context for measurements. Its functions are labs of the C library, which returns its argument: the address of
// the object, which is the given number.
func stub(tb testing.TB, number uintptr) *context {
	labs := function(tb, "labs")
	c := &ibv.Context{Ops: ibv.ContextOps{PostSend: labs, PostRecv: labs, PollCQ: labs, PostSRQRecv: labs}}
	return &context{lib: &library{callDataPath: newStacks().call}, ptr: number, ibvCtx: c}
}

// function returns the address of a function of the C library.
func function(tb testing.TB, name string) uintptr {
	handle, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	if err != nil {
		tb.Fatal(err)
	}
	addr, err := purego.Dlsym(handle, name)
	if err != nil {
		tb.Fatal(err)
	}
	return addr
}
