//go:build linux

package uverbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// liveDevice returns the first device. The tests below also use rxe's part of the commands.
func liveDevice(t testing.TB) Device {
	t.Helper()
	return must(Find(live.Device(t)))(t)
}

func liveContext(t testing.TB) *Context {
	t.Helper()
	c, err := Open(liveDevice(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// must fails the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestLiveFind compares netlink with sysfs.
func TestLiveFind(t *testing.T) {
	d := liveDevice(t)
	dir := "/sys/class/infiniband_verbs/" + d.Uverbs
	for file, want := range map[string]string{
		"ibdev": d.Name, "dev": fmt.Sprintf("%d:%d", unix.Major(d.Dev), unix.Minor(d.Dev)), "abi_version": strconv.Itoa(d.ABI),
	} {
		if got := must(os.ReadFile(dir + "/" + file))(t); strings.TrimSpace(string(got)) != want {
			t.Errorf("%s is %q, netlink returns %q", file, got, want)
		}
	}
	if abi.DriverID(d.Driver) != abi.DriverRXE {
		t.Errorf("driver %d", d.Driver)
	}
	if _, err := Find("no such device"); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), d.Name) {
		t.Errorf("a device that does not exist: %v", err)
	}
}

func TestLiveQueries(t *testing.T) {
	c := liveContext(t)
	dev := must(c.QueryDevice())(t)
	if dev.PhysPortCnt != 1 || dev.MaxQP < 1000 || dev.MaxCQE < 1000 || abi.AtomicCap(dev.AtomicCap) != abi.AtomicHCA {
		t.Errorf("device %+v", dev)
	}
	if ex := must(c.QueryDeviceEx())(t); ex.Base != dev || ex.ResponseLength < 200 {
		t.Errorf("extended: %+v", ex)
	}
	port := must(c.QueryPort(1))(t)
	active, ethernet := uint8(abi.PortActive), uint8(abi.LinkLayerEthernet)
	if port.State != active || port.LinkLayer != ethernet || port.PKeyTblLen != 1 {
		t.Errorf("port %+v", port)
	}
	if _, err := c.QueryPort(9); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("port 9: %v", err)
	}
	if key := must(c.PKey(1, 0))(t); key != 0xffff {
		t.Errorf("P_Key %#x", key)
	}
	gids := must(c.GIDs(int(port.GIDTblLen)))(t)
	if len(gids) == 0 {
		t.Fatal("no GIDs")
	}
	for _, g := range gids {
		if one := must(c.GID(g.PortNum, g.GIDIndex))(t); one != g {
			t.Errorf("the table has %+v, the entry %+v", g, one)
		}
	}
	if g, err := c.GID(1, uint32(port.GIDTblLen)-1); !errors.Is(err, syscall.ENODATA) {
		t.Errorf("an empty entry: %+v, %v", g, err)
	}
	wrong := liveDevice(t)
	wrong.Dev++
	if _, err := Open(wrong); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("a device with another number: %v", err)
	}
}

func TestLiveMemory(t *testing.T) {
	c := liveContext(t)
	pd := must(c.AllocPD(Driver{}))(t)
	buf := make([]byte, 1<<20)
	in := abi.RegMR{Start: address(buf), Length: uint64(len(buf)), HCAVA: address(buf), PDHandle: pd,
		AccessFlags: uint32(abi.AccessLocalWrite | abi.AccessRemoteRead | abi.AccessMWBind)}
	mr := must(c.RegMR(in, Driver{}))(t)
	if mr.LKey == 0 {
		t.Errorf("region %+v", mr)
	}
	if err := c.DeallocPD(pd); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a domain in use: %v", err)
	}
	re, err := c.ReregMR(abi.ReregMR{MRHandle: mr.MRHandle, Flags: uint32(abi.ReregAccess), AccessFlags: 1}, Driver{})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) || err == nil && re.LKey == 0 {
		t.Errorf("changed to %+v, %v", re, err)
	}
	mw := must(c.AllocMW(abi.AllocMW{PDHandle: pd, MWType: uint8(abi.MWType2)}, Driver{}))(t)
	if mw.RKey == 0 {
		t.Errorf("window %+v", mw)
	}
	if err := errors.Join(c.DeallocMW(mw.MWHandle), c.DeregMR(mr.MRHandle), c.DeallocPD(pd)); err != nil {
		t.Error(err)
	}
	if err := c.DeregMR(mr.MRHandle); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a region that was deregistered: %v", err)
	}
	runtime.KeepAlive(buf)
}

// TestLiveCredentials drops a capability, in a thread that ends with the test: a context that was opened before cannot be used
// any more, and one that is opened afterwards may not lock more memory than the limit.
func TestLiveCredentials(t *testing.T) {
	before := liveContext(t)
	device := liveDevice(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit)
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- withoutIPCLock(before, device)
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func withoutIPCLock(before *Context, d Device) error {
	head, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capget(&head, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1 << ipcLock
	if err := unix.Capset(&head, &data[0]); err != nil {
		return err
	}
	if _, err := before.QueryPort(1); !errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("opened with other credentials: %w", err)
	}
	c, err := Open(d)
	if err != nil {
		return err
	}
	defer c.Close()
	pd, err := c.AllocPD(Driver{})
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	_, err = c.RegMR(abi.RegMR{Start: address(buf), Length: 1 << 20, HCAVA: address(buf), PDHandle: pd, AccessFlags: 1}, Driver{})
	var m *MemlockError
	if !errors.As(err, &m) || m.Limit != 64<<10 || m.Need < 1<<20 {
		return fmt.Errorf("registered a megabyte with a limit of 64 KiB: %w", err)
	}
	return nil
}

// TestLiveOpenClose checks that no descriptor leaks.
func TestLiveOpenClose(t *testing.T) {
	d := liveDevice(t)
	if c, err := Open(d); err != nil {
		t.Fatal(err)
	} else if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	before := len(must(os.ReadDir("/proc/self/fd"))(t))
	for range 1000 {
		c := must(Open(d))(t)
		must(c.AllocPD(Driver{}))(t) // the kernel destroys it
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := len(must(os.ReadDir("/proc/self/fd"))(t)); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// queues is a queue pair that is connected to itself, and the objects that it uses.
type queues struct {
	c                 *Context
	pd, cq, srq, qp   uint32
	channel           int
	sq, cqMem, srqMem []byte // rings of rxe
	doorbell          *Doorbell
	notifier          *Notifier
}

// tokens of the objects in events.
const cqToken, srqToken, qpToken = 0xc0, 0x50, 0x90

func newQueues(t testing.TB, c *Context) *queues {
	t.Helper()
	q := &queues{c: c, pd: must(c.AllocPD(Driver{}))(t), channel: must(c.CreateCompChannel())(t)}
	out := make([]byte, 32)
	cq := must(c.CreateCQ(abi.CreateCQ{UserHandle: cqToken, CQE: 16, CompChannel: int32(q.channel)}, Driver{Out: out[:16]}))(t)
	q.cq, q.cqMem = cq.CQHandle, mapRing(t, c, out)
	srq := must(c.CreateSRQ(abi.CreateSRQ{UserHandle: srqToken, PDHandle: q.pd, MaxWR: 8, MaxSGE: 1}, Driver{Out: out[:24]}))(t)
	q.srq, q.srqMem = srq.SRQHandle, mapRing(t, c, out)
	qp := must(c.CreateQP(abi.CreateQP{UserHandle: qpToken, PDHandle: q.pd, SendCQHandle: q.cq, RecvCQHandle: q.cq, SRQHandle: q.srq,
		MaxSendWR: 8, MaxSendSGE: 1, QPType: uint8(abi.QPTRC), IsSRQ: 1}, Driver{Out: out}))(t)
	q.qp, q.sq = qp.QPHandle, mapRing(t, c, out[16:])
	q.doorbell, q.notifier = c.NewDoorbell(q.qp), c.NewNotifier(q.cq)

	gid := liveGID(t, c)
	port := must(c.QueryPort(1))(t)
	steps := []abi.ModifyQP{
		{AttrMask: uint32(abi.QPAttrState | abi.QPAttrPKeyIndex | abi.QPAttrPort | abi.QPAttrAccessFlags), QPState: uint8(abi.QPSInit),
			PortNum: 1},
		{AttrMask: uint32(abi.QPAttrState | abi.QPAttrAV | abi.QPAttrPathMTU | abi.QPAttrDestQPN | abi.QPAttrRQPSN |
			abi.QPAttrMaxDestRdAtomic | abi.QPAttrMinRNRTimer), QPState: uint8(abi.QPSRTR), PathMTU: port.ActiveMTU, DestQPNum: qp.QPN,
			RQPSN: 7, Dest: abi.QPDest{DGID: gid.GID, SGIDIndex: uint8(gid.GIDIndex), HopLimit: 64, IsGlobal: 1, PortNum: 1}},
		{AttrMask: uint32(abi.QPAttrState | abi.QPAttrTimeout | abi.QPAttrRetryCnt | abi.QPAttrRNRRetry | abi.QPAttrSQPSN |
			abi.QPAttrMaxQPRdAtomic), QPState: uint8(abi.QPSRTS), Timeout: 14, RetryCnt: 7, RNRRetry: 7, SQPSN: 7},
	}
	for _, s := range steps {
		s.QPHandle = q.qp
		if err := c.ModifyQP(s); err != nil {
			t.Fatalf("to state %d: %v", s.QPState, err)
		}
	}
	return q
}

// mapRing maps the ring that a struct mminfo describes.
func mapRing(t testing.TB, c *Context, info []byte) []byte {
	t.Helper()
	mem := must(c.Map(u64(info, 0), int(u32(info, 8))))(t)
	t.Cleanup(func() {
		if err := c.Unmap(mem); err != nil {
			t.Error(err)
		}
	})
	return mem
}

func liveGID(t testing.TB, c *Context) abi.GIDEntry {
	t.Helper()
	for _, g := range must(c.GIDs(1024))(t) {
		if g.GIDType == uint32(abi.GIDTypeRoCEv2) && g.GID[10] == 0xff && g.GID[11] == 0xff {
			return g
		}
	}
	t.Fatal("no GID of an IPv4 address")
	return abi.GIDEntry{}
}

// send sends an empty message to the same queue pair.
func (q *queues) send(t testing.TB) {
	t.Helper()
	slot := func(ring []byte) []byte { // of the first request
		return ring[384+int(u32(ring, 128))<<u32(ring, 0):]
	}
	produce := func(ring []byte) { binary.NativeEndian.PutUint32(ring[128:], (u32(ring, 128)+1)&u32(ring, 4)) }
	clear(slot(q.srqMem)[:40])
	binary.NativeEndian.PutUint64(slot(q.srqMem), 1)
	produce(q.srqMem)
	clear(slot(q.sq)[:208])
	binary.NativeEndian.PutUint64(slot(q.sq), 2)
	binary.NativeEndian.PutUint32(slot(q.sq)[12:], uint32(abi.WRSend))
	binary.NativeEndian.PutUint32(slot(q.sq)[16:], uint32(abi.SendSignaled))
	produce(q.sq)
	if err := q.doorbell.Ring(); err != nil {
		t.Fatal(err)
	}
}

// read blocks until one event arrives.
func read(t testing.TB, fd, n int) []byte {
	t.Helper()
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 20_000); n != 1 {
		t.Fatalf("no event in 20 s: %v", err)
	}
	b := make([]byte, n+8)
	got, err := unix.Read(fd, b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:got]
}

func TestLiveQueues(t *testing.T) {
	c := liveContext(t)
	q := newQueues(t, c)
	limit := abi.ModifySRQ{SRQHandle: q.srq, AttrMask: uint32(abi.SRQAttrLimit), SRQLimit: 1}
	if err := c.ModifySRQ(limit, make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if srq := must(c.QuerySRQ(q.srq))(t); srq.SRQLimit != 1 || srq.MaxWR < 8 {
		t.Errorf("shared receive queue %+v", srq)
	}
	if qp := must(c.QueryQP(q.qp, uint32(abi.QPAttrState)))(t); abi.QPState(qp.QPState) != abi.QPSRTS || qp.SQPSN != 7 {
		t.Errorf("queue pair %+v", qp)
	}
	if _, err := unix.Read(q.channel, make([]byte, 8)); err != unix.EAGAIN {
		t.Errorf("read before any event: %v", err)
	}
	if err := q.notifier.Notify(false); err != nil {
		t.Fatal(err)
	}
	q.send(t)
	if token := must(DecodeCompEvent(read(t, q.channel, CompEventBytes)))(t); token != cqToken {
		t.Errorf("completion event of %#x", token)
	}
	e := must(DecodeAsyncEvent(read(t, c.AsyncFD(), AsyncEventBytes)))(t)
	if e.Element != srqToken || abi.EventType(e.EventType) != abi.EventSRQLimitReached {
		t.Errorf("event %+v", e)
	}
	out := make([]byte, 16)
	if n := must(c.ResizeCQ(q.cq, 100, Driver{Out: out}))(t); n < 100 {
		t.Errorf("resized to %d", n)
	}
	q.cqMem = mapRing(t, c, out)
	if n := must(c.DestroyQP(q.qp))(t); n != 0 {
		t.Errorf("%d events of the queue pair", n)
	}
	if n := must(c.DestroySRQ(q.srq))(t); n != 1 {
		t.Errorf("%d events of the shared receive queue", n)
	}
	if n := must(c.DestroyCQ(q.cq))(t); n.CompEventsReported != 1 || n.AsyncEventsReported != 0 {
		t.Errorf("events of the completion queue: %+v", n)
	}
	if err := errors.Join(c.DeallocPD(q.pd), c.CloseCompChannel(q.channel)); err != nil {
		t.Error(err)
	}
	if err := q.doorbell.Ring(); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("doorbell of a destroyed queue pair: %v", err)
	}
}

func TestLiveDatagram(t *testing.T) {
	c := liveContext(t)
	pd := must(c.AllocPD(Driver{}))(t)
	gid := liveGID(t, c)
	out := make([]byte, 32)
	ah := must(c.CreateAH(abi.CreateAH{PDHandle: pd, Attr: abi.AHAttr{IsGlobal: 1, PortNum: 1, GRH: abi.GlobalRoute{
		DGID: gid.GID, SGIDIndex: uint8(gid.GIDIndex), HopLimit: 64}}}, Driver{Out: out[:8]}))(t)
	if u32(out, 0) == 0 {
		t.Error("the address has no number")
	}
	cq := must(c.CreateCQ(abi.CreateCQ{CQE: 16, CompChannel: -1}, Driver{Out: out[:16]}))(t)
	qp := must(c.CreateQP(abi.CreateQP{PDHandle: pd, SendCQHandle: cq.CQHandle, RecvCQHandle: cq.CQHandle, MaxSendWR: 1,
		MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, QPType: uint8(abi.QPTUD)}, Driver{Out: out}))(t)
	group := [16]byte{0xff, 0x0e, 10: 0xff, 0xff, 239, 1, 2, 3}
	if err := c.AttachMcast(qp.QPHandle, group, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.DetachMcast(qp.QPHandle, group, 0); err != nil {
		t.Error(err)
	}
	must(c.DestroyQP(qp.QPHandle))(t)
	must(c.DestroyCQ(cq.CQHandle))(t)
	if err := errors.Join(c.DestroyAH(ah), c.DeallocPD(pd)); err != nil {
		t.Error(err)
	}
}

func BenchmarkLiveRing(b *testing.B) {
	q := newQueues(b, liveContext(b))
	for b.Loop() {
		if err := q.doorbell.Ring(); err != nil {
			b.Fatal(err)
		}
	}
}
