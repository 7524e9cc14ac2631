//go:build linux && !static && (amd64 || arm64)

package libibverbs

// Unsafe because the fake plays the part of C: it hands out addresses of its objects and follows those that it is given.

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
// those that the linker finds; those of the context's table are called from C.
type fake struct {
	t     *testing.T
	lib   *library
	ctx   ibv.Context
	cq    ibv.CQ
	qp    ibv.QP
	srq   ibv.SRQ
	ah    ibv.AH
	errno int32

	room   int                // how many more requests the device takes
	errors []syscall.Errno    // what the next calls that post return instead
	calls  int                // calls that posted
	done   int                // sends that have completed
	sends  []ibv.SendWR       // requests taken, with copies of
	lists  [][]ib.SGE         // their lists and
	data   [][]byte           // what their first entries point to
	recvs  []uint64           // receives taken
	wcs    []ib.WC            // what polls are to find
	comp   []uint64           // tokens of completion events to be read
	async  []ibv.AsyncEvent   // events to be read
	acked  []uverbs.EventType // and acknowledged
	acks   uint32             // completion events acknowledged
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, room: 1 << 20}
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
		ackCQEvents:   func(_ uintptr, n uint32) { f.acks += n },
		getAsyncEvent: f.getAsyncEvent,
		ackAsyncEvent: func(e *ibv.AsyncEvent) { f.acked = append(f.acked, uverbs.EventType(e.EventType)) },
		errno:         func() *int32 { return &f.errno },
		callDataPath:  directGo,
	}
	return f
}

// newFakeOf is a fake whose device takes n requests.
func newFakeOf(t *testing.T, n int) *fake {
	f := newFake(t)
	f.room = n
	return f
}

// complete makes completions of all that is queued, to be polled.
func (f *fake) complete() {
	for _, wr := range f.sends[f.done:] {
		f.done++
		if wr.SendFlags&signaled != 0 {
			f.wcs = append(f.wcs, ib.WC{ID: wr.WRID, QPN: f.qp.QPNum})
		}
	}
}

// context is the device, opened, without the descriptor that Open looks after.
func (f *fake) context() *context {
	return &context{lib: f.lib, ptr: address(&f.ctx), ctx: &f.ctx}
}

// pair is a queue pair and the queue on which all of it completes.
func (f *fake) pair(c ib.Cap) (*qp, *cq) {
	f.t.Helper()
	x := f.context()
	q, err := x.CreateCQ(100, nil, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := (&pd{x: x}).CreateQP(ib.QPInit{SendCQ: q, RecvCQ: q, Cap: c})
	if err != nil {
		f.t.Fatal(err)
	}
	return p.(*qp), q.(*cq)
}

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

func (f *fake) refusal() uintptr {
	if f.room == 0 {
		return uintptr(syscall.ENOMEM)
	}
	if len(f.errors) == 0 {
		return 0
	}
	e := f.errors[0]
	f.errors = f.errors[1:]
	return uintptr(e)
}

func (f *fake) postSend(_, list, bad uintptr) uintptr {
	f.calls++
	for ; list != 0; list = structAt[ibv.SendWR](list).Next {
		if e := f.refusal(); e != 0 {
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
		f.room--
	}
	return 0
}

// check compares a request that was taken, not a datagram, with what was posted.
func (f *fake) check(i int, wr *ib.SendWR) {
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
		f.t.Errorf("request %d is %+v with %v and %v, and %+v was posted", i, *c, f.lists[i], f.data[i], *wr)
	}
}

func (f *fake) postRecv(_, list, bad uintptr) uintptr {
	if e := f.refusal(); e != 0 {
		*structAt[uintptr](bad) = list
		return e
	}
	wr := structAt[ibv.RecvWR](list)
	if wr.Next != 0 {
		f.t.Errorf("receive %d has another behind it", wr.WRID)
	}
	f.recvs = append(f.recvs, wr.WRID)
	f.lists = append(f.lists, slices.Clone(unsafe.Slice(structAt[ib.SGE](wr.SGList), wr.NumSGE)))
	f.room--
	return 0
}

func (f *fake) pollCQ(_, n, wc uintptr) uintptr {
	if f.wcs == nil {
		return 0
	}
	if len(f.wcs) == 0 { // a queue that is broken
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
	if len(f.comp) == 0 {
		f.errno = int32(syscall.EAGAIN)
		return -1
	}
	*q, *token = address(&f.cq), uintptr(f.comp[0])
	f.comp = f.comp[1:]
	return 0
}

func (f *fake) getAsyncEvent(_ uintptr, e *ibv.AsyncEvent) int32 {
	if len(f.async) == 0 {
		f.errno = int32(syscall.EAGAIN)
		return -1
	}
	*e = f.async[0]
	f.async = f.async[1:]
	return 0
}

// stub is an object for measurements: its functions are labs of the C library, which returns the object's address, so 0 or
// what number was chosen for it.
func stub(tb testing.TB, number uintptr) *context {
	labs := function(tb, "labs")
	c := &ibv.Context{Ops: ibv.ContextOps{PostSend: labs, PostRecv: labs, PollCQ: labs, PostSRQRecv: labs}}
	return &context{lib: &library{callDataPath: direct}, ptr: number, ctx: c}
}

// function is the address of a function of the C library.
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
