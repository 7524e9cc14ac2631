//go:build linux && !static && (amd64 || arm64)

package libibverbs

// Unsafe because memory is registered by its address, and requests contain it.

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// rig is a device with registered memory. Tests send from the first half and receive into the second.
type rig struct {
	testing.TB
	x    ib.Context
	pd   ib.PD
	ch   *channel
	cq   ib.CQ
	mem  []byte
	mr   ib.MR
	port ib.PortAttr
	gid  ib.GID // RoCE v2, IPv4
}

const (
	half      = 64 << 10
	allAccess = uint32(uverbs.AccessLocalWrite | uverbs.AccessRemoteWrite | uverbs.AccessRemoteRead | uverbs.AccessRemoteAtomic |
		uverbs.AccessMWBind)
)

func must[V any](tb testing.TB) func(V, error) V {
	return func(v V, err error) V {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// ok fails the test if err is not nil.
func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// closeLater closes an object when the test ends. The object that was opened last is closed first.
func (r *rig) closeLater(o interface{ Close() error }) {
	r.Cleanup(func() {
		if err := o.Close(); err != nil {
			r.Errorf("close %T: %v", o, err)
		}
	})
}

func newRig(tb testing.TB) *rig {
	r := &rig{TB: tb, mem: make([]byte, 2*half)}
	r.x = must[ib.Context](tb)(New().Open(ib.Device{Name: live.Device(tb), Driver: uint32(uverbs.DriverRXE)}))
	r.closeLater(r.x)
	r.port = must[ib.PortAttr](tb)(r.x.QueryPort(1))
	for _, g := range must[[]ib.GID](tb)(r.x.QueryGIDs()) {
		if uverbs.GIDType(g.Type) == uverbs.GIDTypeRoCEv2 && [12]byte(g.GID[:12]) == [12]byte{10: 0xff, 11: 0xff} {
			r.gid = g
		}
	}
	if r.gid.GID == [16]byte{} {
		tb.Fatal("the device has no IPv4 address")
	}
	r.pd = must[ib.PD](tb)(r.x.AllocPD())
	r.closeLater(r.pd)
	r.mr = must[ib.MR](tb)(r.pd.RegMR(r.addr(0), uint64(len(r.mem)), r.addr(0), allAccess))
	r.closeLater(r.mr)
	r.ch = must[ib.Channel](tb)(r.x.CreateChannel()).(*channel)
	r.closeLater(r.ch)
	r.cq = must[ib.CQ](tb)(r.x.CreateCQ(64, r.ch, 0))
	r.closeLater(r.cq)
	return r
}

func (r *rig) addr(off int) uint64 { return uint64(uintptr(unsafe.Pointer(&r.mem[off]))) }

// sge returns a list entry with registered memory.
func (r *rig) sge(off, n int) ib.SGE {
	lkey, _ := r.mr.Keys()
	return ib.SGE{Addr: r.addr(off), Len: uint32(n), LKey: lkey}
}

func (r *rig) rkey() uint32 {
	_, rkey := r.mr.Keys()
	return rkey
}

// qp creates a small queue pair with the completion queue of the rig.
func (r *rig) qp(kind uverbs.QPType, srq ib.SRQ) ib.QP {
	r.Helper()
	q := must[ib.QP](r)(r.pd.CreateQP(ib.QPInit{Type: uint8(kind), SendCQ: r.cq, RecvCQ: r.cq, SRQ: srq,
		Cap: ib.Cap{SendWR: 8, RecvWR: 8, SendSGE: 2, RecvSGE: 2, Inline: 64}}))
	r.closeLater(q)
	return q
}

const qkey = 0x1111

// connect connects a queue pair to another one of the same device. A queue pair for datagrams can then send to any.
func (r *rig) connect(q, peer ib.QP, kind uverbs.QPType) {
	r.Helper()
	const (
		base   = uverbs.QPAttrState | uverbs.QPAttrPKeyIndex | uverbs.QPAttrPort
		path   = uverbs.QPAttrState | uverbs.QPAttrAV | uverbs.QPAttrPathMTU | uverbs.QPAttrDestQPN | uverbs.QPAttrRQPSN
		reader = uverbs.QPAttrMaxDestRdAtomic | uverbs.QPAttrMinRNRTimer
		start  = uverbs.QPAttrState | uverbs.QPAttrSQPSN
		retry  = uverbs.QPAttrTimeout | uverbs.QPAttrRetryCnt | uverbs.QPAttrRNRRetry | uverbs.QPAttrMaxQPRdAtomic
	)
	steps := map[uverbs.QPType][3]uverbs.QPAttrMask{
		uverbs.QPTRC: {base | uverbs.QPAttrAccessFlags, path | reader, start | retry},
		uverbs.QPTUC: {base | uverbs.QPAttrAccessFlags, path, start},
		uverbs.QPTUD: {base | uverbs.QPAttrQKey, uverbs.QPAttrState, start},
	}[kind]
	a := ib.QPAttr{Port: 1, Access: allAccess &^ uint32(uverbs.AccessMWBind), QKey: qkey,
		PathMTU: r.port.ActiveMTU, DestQPN: peer.Num(), RQPSN: 7, SQPSN: 7, AH: r.ownAddress(),
		MaxRdAtomic: 1, MaxDestRdAtomic: 1, MinRNRTimer: 12, Timeout: 14, RetryCnt: 7, RNRRetry: 7}
	for i, s := range []uverbs.QPState{uverbs.QPSInit, uverbs.QPSRTR, uverbs.QPSRTS} {
		a.State = uint8(s)
		r.ok(q.Modify(&a, uint32(steps[i])))
	}
}

// ownAddress returns the address vector of this device.
func (r *rig) ownAddress() ib.AHAttr {
	return ib.AHAttr{DGID: r.gid.GID, SGIDIndex: uint8(r.gid.Index), HopLimit: 64, Global: true, Port: 1}
}

// pair returns two connected queue pairs.
func (r *rig) pair(kind uverbs.QPType) (a, b ib.QP) {
	r.Helper()
	a, b = r.qp(kind, nil), r.qp(kind, nil)
	r.connect(a, b, kind)
	r.connect(b, a, kind)
	return a, b
}

// send posts a signaled request and rings the doorbell.
func (r *rig) send(q ib.QP, wr ib.SendWR) {
	r.Helper()
	wr.Flags |= signaled
	r.ok(q.Post(&wr))
	r.ok(q.Ring())
}

// wait polls until n completions have arrived, and returns them by ID.
func (r *rig) wait(n int) map[uint64]ib.WC {
	r.Helper()
	got, wc := map[uint64]ib.WC{}, make([]ib.WC, 8)
	defer func() {
		if len(got) < n {
			r.Logf("%d of %d completions arrived", len(got), n)
		}
	}()
	waittest.Poll(r, "all completions arrive", func() bool {
		if len(got) >= n {
			return true
		}
		k := must[int](r)(r.cq.Poll(wc))
		for _, c := range wc[:k] {
			if _, twice := got[c.ID]; twice {
				r.Fatalf("request %d completed twice", c.ID)
			}
			got[c.ID] = c
		}
		return len(got) >= n
	})
	return got
}

// done waits for completions that must be successful.
func (r *rig) done(ids ...uint64) map[uint64]ib.WC {
	r.Helper()
	got := r.wait(len(ids))
	for _, id := range ids {
		if c, found := got[id]; !found || uverbs.WCStatus(c.Status) != uverbs.WCSuccess {
			r.Fatalf("request %d: %+v, among %v", id, c, got)
		}
	}
	return got
}

// readable blocks until a descriptor is readable.
func (r *rig) readable(fd int) {
	r.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(waittest.Limit.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			r.Fatalf("no event after %v: %v", waittest.Limit, err)
		}
		return
	}
}
