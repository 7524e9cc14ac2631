//go:build linux

package rdma

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/internal/leakcheck"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// unusual are devices with the limits of real ones, or with the smallest that can serve.
var unusual = []struct {
	name  string
	limit func(*verbstest.SimulatedDevice)
}{
	{"tiny0", func(d *verbstest.SimulatedDevice) { tiny(d); d.Attr.MaxSRQ = 0 }},
	{"bnxt_re0", func(d *verbstest.SimulatedDevice) { d.MaxInline, d.GrantsLess = 96, true }},
	{"irdma0", func(d *verbstest.SimulatedDevice) { d.MaxInline, d.Attr.MaxSRQ, d.Attr.MaxSRQWR = 101, 0, 0 }},
	{"tiny1", tiny},
	{"ionic_0", func(d *verbstest.SimulatedDevice) { d.Attr.MaxSRQ, d.Attr.MaxQPInitRdAtom = 0, 2 }},
	{"hfi1_0", func(d *verbstest.SimulatedDevice) { d.MaxInline = 0 }},
}

func tiny(d *verbstest.SimulatedDevice) {
	a := &d.Attr
	a.MaxQPWR, a.MaxSGE, a.MaxSGERd, a.MaxQPRdAtom, a.MaxQPInitRdAtom, a.AtomicCap = devices.MinDepth, 1, 1, 1, 1, 0
	a.MaxCQE, a.MaxSRQWR, a.MaxSRQSGE, a.MaxMRSize = 2*messages.BlockSlots+devices.DatagramRecvs, 2*messages.BlockSlots, 1, 1<<21
	d.MaxInline, d.Port.MaxMsgSize, d.Port.MaxMTU, d.Port.ActiveMTU = 0, 8<<10, verbs.MTU256, verbs.MTU256
}

// unusualNetwork returns a network with the unusual devices.
func unusualNetwork() *verbstest.SimulatedNetwork {
	net := verbstest.NewSimulatedNetwork()
	for _, u := range unusual {
		net.SetDevice(u.name, u.limit)
	}
	return net
}

// TestSimulatedUnusualConformance is TestSimulatedConformance between peers whose devices differ, with IBRUN_SOAK=1.
func TestSimulatedUnusualConformance(t *testing.T) {
	if !soaktest.On() {
		t.Skip("runs with IBRUN_SOAK=1")
	}
	fabrictest.Rules(t, func(tb testing.TB, n int) []fabric.Transport {
		var key [32]byte
		rand.Read(key[:])
		net, trs := unusualNetwork(), make([]*Transport, n)
		for i := range trs {
			set := Settings{Devices: []string{unusual[i%len(unusual)].name}}
			trs[i] = &Transport{Key: key, Settings: set, Network: net.Node()}
		}
		return suitePeers(tb, trs)
	})
}

// TestSimulatedGrants: a domain uses what the device grants.
func TestSimulatedGrants(t *testing.T) {
	net := unusualNetwork()
	for name, want := range map[string]struct{ inline, depth, window int }{
		"plain0": {128, 64, 64}, "tiny0": {0, 4, 3}, "tiny1": {0, 4, 64}, "bnxt_re0": {96, 64, 64}, "irdma0": {101, 64, 64},
		"ionic_0": {128, 64, 64}, "hfi1_0": {0, 64, 64},
	} {
		d := openOne(t, net, Settings{Devices: []string{name}})
		r := d.rails[0]
		if g := r.Granted; g.Inline != want.inline || g.Depth != want.depth || g.Window != want.window {
			t.Errorf("%s: %+v, want %+v", name, g, want)
		}
		if s := d.Settings(); s.Inline != want.inline || s.Window != want.window || s.Piece > r.MaxPiece {
			t.Errorf("%s: settings %+v", name, s)
		}
		l, err := (&Transport{Settings: Settings{Devices: []string{name}}, Network: net.Node()}).Limits()
		if err != nil || l.Settings.Inline != want.inline || l.Settings.Window != want.window {
			t.Errorf("%s: limits %+v, %v", name, l, err)
		}
		if from := l.Sources["Inline"]; (from == "default") != (want.inline == 128) {
			t.Errorf("%s: inline of %d comes from %s", name, want.inline, from)
		}
	}
}

// TestSimulatedGrantsAfterRefusal: a device that refuses the first queue pair of a connection for another reason than its inline
// size still grants all of it.
func TestSimulatedGrantsAfterRefusal(t *testing.T) {
	for refused := range 4 { // with the queue pairs for datagrams before it
		net, created := verbstest.NewSimulatedNetwork(), 0
		net.Refuse(func(c verbstest.SimulatedCall) error {
			if c != verbstest.CallCreateQP {
				return nil
			}
			if created++; created == refused+1 {
				return syscall.EINVAL
			}
			return nil
		})
		tr := &Transport{Settings: Settings{Devices: []string{"a"}}, Network: net.Node()}
		d, err := tr.Open(t.Context(), &fabric.Config{Size: 2})
		if err != nil {
			continue // a queue pair for datagrams was refused
		}
		if g := d.(*domain).rails[0].Granted; g.Inline != 128 {
			t.Errorf("queue pair %d was refused: %+v", refused, g)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSimulatedFewAddressHandles: a device with fewer address handles than there are peers connects to all of them.
func TestSimulatedFewAddressHandles(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	net.SetDevice("a", func(d *verbstest.SimulatedDevice) { d.Attr.MaxAH = 3 })
	ds := openOn(t, net, Settings{Devices: []string{"a"}}, 6)
	for i, a := range ds {
		for _, b := range ds[i+1:] {
			connectPeers(t, a, b)
			a.eps[b.self].sendCM(cm.Probe, cm.QP{}) // the responder of the peer needs a handle, too
		}
	}
	for i, a := range ds {
		for j := range ds {
			if i != j && a.eps[j].conn.State != cm.StateEstablished {
				t.Errorf("peers %d and %d are not connected", i, j)
			}
		}
	}
}

// TestSimulatedUnreported: drivers that do not report the largest message and region can be used.
func TestSimulatedUnreported(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	net.SetDevice("a", func(d *verbstest.SimulatedDevice) { d.Port.MaxMsgSize, d.Attr.MaxMRSize = 0, 0 })
	ds := openOn(t, net, Settings{Devices: []string{"a"}}, 2)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
}

// openOne opens the first of three peers.
func openOne(t *testing.T, net *verbstest.SimulatedNetwork, set Settings) *domain {
	t.Helper()
	fd, err := (&Transport{Settings: set, Network: net.Node()}).Open(t.Context(), &fabric.Config{Self: 0, Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fd.Close(); err != nil {
			t.Error(err)
		}
	})
	return fd.(*domain)
}

// TestSimulatedRefused: a device that cannot serve is refused by an error that names it and what it lacks.
func TestSimulatedRefused(t *testing.T) {
	for capability, limit := range map[string]func(*verbstest.SimulatedDevice){
		"reliable connections (RC)": func(d *verbstest.SimulatedDevice) { d.NoRC = true },
		"datagrams (UD)":            func(d *verbstest.SimulatedDevice) { d.NoUD = true },
		"max_qp_rd_atom is 0":       func(d *verbstest.SimulatedDevice) { d.Attr.MaxQPRdAtom = 0 },
		"max_qp_init_rd_atom is 0":  func(d *verbstest.SimulatedDevice) { d.Attr.MaxQPInitRdAtom = 0 },
		"max_qp is 2":               func(d *verbstest.SimulatedDevice) { d.Attr.MaxQP = 2 },
		"max_qp_wr is 3":            func(d *verbstest.SimulatedDevice) { d.Attr.MaxQPWR = 3 },
		"max_ah is 1":               func(d *verbstest.SimulatedDevice) { d.Attr.MaxAH = 1 },
		"max_sge is 0":              func(d *verbstest.SimulatedDevice) { d.Attr.MaxSGE = 0 },
		"max_cqe is 95":             func(d *verbstest.SimulatedDevice) { d.Attr.MaxCQE = 95 },
		"active_mtu is 128":         func(d *verbstest.SimulatedDevice) { d.Port.ActiveMTU = 0 },
		"max_msg_sz is 4096":        func(d *verbstest.SimulatedDevice) { d.Port.MaxMsgSize = 4096 },
		"max_mr_size is 4096":       func(d *verbstest.SimulatedDevice) { d.Attr.MaxMRSize = 4096 },
		"port":                      func(d *verbstest.SimulatedDevice) { d.Port.State = verbs.PortDown },
	} {
		net := verbstest.NewSimulatedNetwork()
		net.SetDevice("poor0", limit)
		d, err := (&Transport{Settings: Settings{Devices: []string{"poor0"}}, Network: net.Node()}).Open(t.Context(),
			&fabric.Config{Self: 0, Size: 3})
		if err == nil {
			t.Errorf("%s: opens", capability)
			_ = d.Close()
			continue
		}
		var lacks *DeviceError
		name, _, _ := strings.Cut(capability, " is ")
		if !errors.As(err, &lacks) || lacks.Device != "poor0" || lacks.Capability != name || !errors.Is(err, fabric.ErrNotSupported) {
			t.Errorf("%s: %v", capability, err)
		}
	}
}

// TestSimulatedRefusesAnyCall: whichever call a device refuses at open, once or from then on, Open returns a typed error, or does
// without.
func TestSimulatedRefusesAnyCall(t *testing.T) {
	set := Settings{Devices: []string{"a", "b"}}
	defer leakcheck.Take(t, leakcheck.Files).Compare(t)
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.ENOMEM, syscall.EAGAIN, syscall.EPERM, syscall.EOPNOTSUPP} {
		for _, once := range []bool{true, false} {
			works := 0
			for at := 0; ; at++ {
				net, calls := verbstest.NewSimulatedNetwork(), 0
				var refused verbstest.SimulatedCall
				net.Refuse(func(c verbstest.SimulatedCall) error {
					if calls++; calls == at+1 {
						refused = c
						return errno
					}
					if !once && calls > at && c == refused {
						return errno
					}
					return nil
				})
				fd, err := (&Transport{Settings: set, Network: net.Node()}).Open(t.Context(), &fabric.Config{Self: 0, Size: 2})
				if err == nil {
					works++
					err = fd.Close()
				}
				if calls <= at {
					break // there are no more calls
				}
				typed := refused <= verbstest.CallQueryDevice || errors.Is(err, fabric.ErrNotSupported)
				if err != nil && (!errors.Is(err, errno) || !typed) {
					t.Errorf("%v of %v, the call number %d: %v", errno, refused, at, err)
				}
			}
			// The last attempt was not refused. If a call of the second device was refused once, the first is opened alone.
			if canDoWithout := errno != syscall.EPERM || once; canDoWithout != (works > 1) {
				t.Errorf("%v, once %v: Open does without %d calls", errno, once, works)
			}
		}
	}
}

// TestSimulatedOwnQueues: without an SRQ, slots are neither lost nor posted twice, and a peer that sends much is granted more
// credits, also when connections break.
func TestSimulatedOwnQueues(t *testing.T) {
	for _, name := range []string{"tiny0", "irdma0"} {
		ds := openOn(t, unusualNetwork(), Settings{Devices: []string{name}}, 3)
		for round := range 6 {
			for _, pair := range [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 1}} {
				a, b := ds[pair[0]], ds[pair[1]]
				connectPeers(t, a, b)
				for range 40 {
					send(t, a, b)
				}
				pollAll(t, ds...)
			}
			if round%2 == 0 {
				breakConn(t, ds[round/2], ds[(round/2+1)%3])
			}
			pollAll(t, ds...)
		}
		for i, d := range ds {
			posted := 0
			for j, e := range d.eps {
				if e == nil || e.msgs.In.Window == 0 {
					continue
				}
				n := e.msgs.Posted()
				if n != int(e.msgs.In.Window)+1 || e.msgs.Held != 0 {
					t.Fatalf("%s: peer %d has posted %d for peer %d, whose window is %d", name, i, n, j, e.msgs.In.Window)
				}
				posted += n
			}
			if posted != d.recvs.Reserved || posted+len(d.recvs.Free) != d.recvs.Total() {
				t.Errorf("%s: peer %d: %d slots are posted and %d free; %d are reserved of %d", name, i, posted, len(d.recvs.Free),
					d.recvs.Reserved, d.recvs.Total())
			}
		}
		if w := ds[1].eps[0].msgs.In.Window; int(w) != ds[1].settings.Window && name == "tiny0" || w < 4 && name != "tiny0" {
			t.Errorf("%s: the window of a busy peer is %d", name, w)
		}
	}
}

// TestSimulatedOwnQueuesForAll: without an SRQ, windows that have grown leave slots for peers that connect later.
func TestSimulatedOwnQueuesForAll(t *testing.T) {
	const peers = 14
	net := verbstest.NewSimulatedNetwork()
	net.SetDevice("a", func(d *verbstest.SimulatedDevice) {
		d.Attr.MaxSRQ, d.Attr.MaxCQE = 0, 2*messages.BlockSlots+devices.DatagramRecvs
	})
	ds := openOn(t, net, Settings{Devices: []string{"a"}}, peers)
	a := ds[0]
	for i := 1; i < peers; i++ {
		if err := a.eps[i].Send([]byte("message"), nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
		pollAll(t, a, ds[i])
		if e := a.eps[i]; e.conn.State != cm.StateEstablished {
			t.Fatalf("peer %d is not connected: %v", i, e.retry.err)
		}
		for range 8 {
			a.recvs.GrowWindow(&a.eps[i].msgs)
		}
	}
	if w := a.eps[1].msgs.In.Window; w < messages.MinGrownWindow {
		t.Errorf("the first peer has a window of %d", w)
	}
}

// pollAll polls until nothing is left to do but what waits for timers.
func pollAll(t *testing.T, ds ...*domain) {
	t.Helper()
	for range enoughPolls {
		for _, d := range ds {
			pollTimes(t, d, 1)
		}
	}
}

// TestSimulatedShallowQueues: on queues of any depth, messages and credits in both directions need no timer to go on.
func TestSimulatedShallowQueues(t *testing.T) {
	for depth := uint32(devices.MinDepth); depth <= devices.QPDepth; depth++ {
		net := verbstest.NewSimulatedNetwork()
		net.SetDevice("a", func(d *verbstest.SimulatedDevice) { d.Attr.MaxQPWR = depth })
		ds := openOn(t, net, Settings{Devices: []string{"a"}}, 2)
		connectPeers(t, ds[0], ds[1])
		var sent, got [2]int
		for polls := 0; got != [2]int{100, 100}; polls++ {
			for i, d := range ds {
				for sent[i] < 100 && sent[i] <= got[i] && d.eps[1-i].Send([]byte("message"), nil) == nil {
					sent[i]++
				}
				got[i] += len(pollTimes(t, d, 1))
			}
			if polls > 50_000 {
				t.Fatalf("depth %d: stuck after %d messages were sent, and %d received", depth, sent, got)
			}
		}
	}
}

// TestSimulatedReadDepth: READs between devices whose depths differ in either direction.
func TestSimulatedReadDepth(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	for i, depth := range [][2]uint32{{1, 16}, {16, 1}, {300, 300}} {
		net.SetDevice(fmt.Sprint("depth", i), func(d *verbstest.SimulatedDevice) {
			d.Attr.MaxQPRdAtom, d.Attr.MaxQPInitRdAtom = depth[0], depth[1]
		})
	}
	ds := openEach(t, net, "depth0", "depth1", "depth2")
	for i, a := range ds {
		for j, b := range ds {
			if i == j {
				continue
			}
			connectPeers(t, a, b)
			src := bytes.Repeat([]byte{byte(10*i + j)}, 20*a.rails[0].room.Piece+1)
			dst := make([]byte, len(src))
			from, err1 := b.Register(src)
			to, err2 := a.Register(dst)
			_, err3 := a.eps[j].Read(dst, to, from.Remote, 7)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			got := pollTimes(t, a, enoughPolls)
			if len(got) != 1 || got[0].Err != nil || !bytes.Equal(src, dst) {
				t.Errorf("peer %d reads from %d: %+v", i, j, got)
			}
		}
	}
}

// TestSimulatedLargeRegion: memory that is too large for a device is reported as memory that it cannot register, so that a
// message is sent in fragments. Limits returns how long it may be.
func TestSimulatedLargeRegion(t *testing.T) {
	net, set := unusualNetwork(), Settings{Devices: []string{"tiny1"}}
	l, err := (&Transport{Settings: set, Network: net.Node()}).Limits()
	if err != nil || l.Region != 1<<21 {
		t.Errorf("%d bytes, %v", l.Region, err)
	}
	_, err = openOne(t, net, set).Register(make([]byte, l.Region+1))
	if !errors.Is(err, syscall.EOPNOTSUPP) || !strings.Contains(err.Error(), "max_mr_size") {
		t.Errorf("%v", err)
	}
}

// TestSimulatedPoolCannotGrow: when the device registers no more memory, messages wait for slots to become free. No message is
// lost, and the device is not asked again.
func TestSimulatedPoolCannotGrow(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	connectPeers(t, a, b)
	asked := 0
	net.Refuse(func(c verbstest.SimulatedCall) error {
		if c != verbstest.CallRegMR {
			return nil
		}
		asked++
		return syscall.ENOMEM
	})
	var held []uint32
	for slot, ok := a.poster.Sends.Take(); ok; slot, ok = a.poster.Sends.Take() {
		held = append(held, slot)
	}
	for range 3 {
		if err := a.eps[1].Send([]byte("message"), nil); err != fabric.ErrAgain {
			t.Fatalf("without a slot: %v", err)
		}
	}
	if asked != 1 {
		t.Errorf("the device was asked %d times", asked)
	}
	for _, slot := range held {
		a.poster.Sends.Give(slot)
	}
	for range 200 {
		send(t, a, b)
	}
	pollAll(t, a, b)
}

// TestSimulatedOtherDevice: a device that cannot serve, or that refuses a call, is replaced by another one of its subnet, and a
// line says so. If none can be used, the error names all.
func TestSimulatedOtherDevice(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	for i, name := range []string{"a", "b", "c"} {
		net.SetPort(name, roce(fmt.Sprintf("10.0.0.%d", i+1), verbs.MTU1024))
	}
	var said []string
	tr := &Transport{Network: net.Node("a", "b", "c"), Report: func(text string) { said = append(said, text) }}
	refuseTimes(net, verbstest.CallAllocPD, 2, syscall.EPERM)
	d, err := tr.Open(t.Context(), &fabric.Config{Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.(*domain).Settings().Devices; !slices.Equal(got, []string{"c"}) {
		t.Errorf("%q is used", got)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if len(said) != 2 || !strings.Contains(said[0], "device a cannot") || !strings.Contains(said[1], "device b cannot") {
		t.Errorf("reported: %q", said)
	}
	net.Refuse(nil)
	two := *tr
	two.Settings.Rails = 2
	net.SetDevice("b", func(d *verbstest.SimulatedDevice) { d.NoRC = true })
	if l, err := two.Limits(); err != nil || !slices.Equal(l.Settings.Devices, []string{"a", "c"}) {
		t.Errorf("limits of two rails, %q: %v", l.Settings.Devices, err)
	}
	net.SetDevice("a", func(d *verbstest.SimulatedDevice) { d.NoRC = true })
	net.SetDevice("b", func(d *verbstest.SimulatedDevice) { d.NoRC = false })
	if l, err := tr.Limits(); err != nil || !slices.Equal(l.Settings.Devices, []string{"b"}) {
		t.Errorf("limits of %q: %v", l.Settings.Devices, err)
	}
	refuseTimes(net, verbstest.CallAllocPD, math.MaxInt, syscall.EPERM)
	_, err = tr.Open(t.Context(), &fabric.Config{Size: 2})
	if !errors.Is(err, fabric.ErrNotSupported) || strings.Count(err.Error(), "cannot be used") != 3 ||
		strings.Contains(err.Error(), "\n") || len(said) != 2 {
		t.Errorf("%v; reported: %q", err, said)
	}
}

// TestSimulatedUses: each port that a job may use is opened as a job does. If devices are named, the others are not asked, and a
// name that does not exist is listed with the error of a job.
func TestSimulatedUses(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	net.SetDevice("b", func(d *verbstest.SimulatedDevice) { d.Attr.MaxQPRdAtom = 0 })
	for _, c := range []struct {
		named []string
		want  string
	}{{nil, "a:1 true, b:1 false"}, {[]string{"b:1"}, "b:1 false"}, {[]string{"a", "c"}, "a:1 true, c:0 false"},
		{[]string{"a:9", "c:2"}, "a:9 false, c:2 false"}} {
		uses, err := (&Transport{Settings: Settings{Devices: c.named}, Network: net.Node("a", "b")}).Uses()
		var got []string
		for _, u := range uses {
			got = append(got, fmt.Sprintf("%s:%d %v", u.Device, u.Port, u.Err == nil))
		}
		if text := strings.Join(got, ", "); err != nil || text != c.want {
			t.Errorf("%q: %s, %v, want %s", c.named, text, err, c.want)
		}
	}
}
