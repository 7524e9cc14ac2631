//go:build linux

package rdma

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// reported are the lines that two peers with two rails have printed. Goroutines of both may print.
type reported [2]atomic.Pointer[[]string]

// openReporting opens two peers on two rails each: devices a0 and b0 of the first, a1 and b1 of the second.
func openReporting(t *testing.T, net *verbstest.SimulatedNetwork, set Settings) (*reported, []*domain) {
	t.Helper()
	lines, trs := new(reported), make([]*Transport, 2)
	for i := range trs {
		one := set
		one.Devices = []string{railName(0, i), railName(1, i)}
		trs[i] = &Transport{Settings: one, Network: net.Node(), Report: func(text string) { lines.add(i, text) }}
	}
	return lines, openTransports(t, trs)
}

func (r *reported) add(peer int, text string) {
	all := append(r.of(peer), text)
	r[peer].Store(&all)
}

func (r *reported) of(peer int) []string {
	if all := r[peer].Load(); all != nil {
		return *all
	}
	return nil
}

// check checks that only the first peer has printed a line, and that it contains some texts.
func (r *reported) check(t *testing.T, what string, want ...string) {
	t.Helper()
	first := r.of(0)
	if len(first) != 1 || len(r.of(1)) > 0 {
		t.Errorf("%s: reported %q and %q", what, first, r.of(1))
		return
	}
	for _, text := range want {
		if !strings.Contains(first[0], text) || strings.Contains(first[0], "\n") {
			t.Errorf("%s: %q does not contain %q", what, first[0], text)
		}
	}
}

// refuseOn makes a device refuse a call from now on.
func refuseOn(net *verbstest.SimulatedNetwork, device string, call verbstest.SimulatedCall, errno syscall.Errno) {
	net.RefuseOn(func(name string, c verbstest.SimulatedCall) error {
		if name == device && c == call {
			return errno
		}
		return nil
	})
}

// TestSimulatedRailLeftOut: the second of two devices of a process refuses a call when it is opened, when two peers connect or
// when they connect again, or it is lost, or its link goes down. The first device is used alone, and that process says why, once.
func TestSimulatedRailLeftOut(t *testing.T) {
	const call, errno = verbstest.CallModifyQP, syscall.EREMOTEIO
	refuse := func(net *verbstest.SimulatedNetwork) { refuseOn(net, railName(1, 0), call, errno) }
	for name, c := range map[string]struct {
		opening, connecting, connected func(net *verbstest.SimulatedNetwork)
		want                           string
	}{
		"opening":    {opening: refuse, want: "ibv_modify_qp: remote I/O error"},
		"connecting": {connecting: refuse, want: "ibv_modify_qp: remote I/O error"},
		"connecting again": {connected: func(net *verbstest.SimulatedNetwork) {
			refuse(net)
			net.BreakConnections()
		}, want: "ibv_modify_qp: remote I/O error"},
		"lost": {connected: func(net *verbstest.SimulatedNetwork) { net.RemoveDevice("b0") }, want: "lost"},
		"link down": {connected: func(net *verbstest.SimulatedNetwork) { setPort(net, "b0", verbs.PortDown) },
			want: "the link of port 1 is down"},
	} {
		t.Run(name, func(t *testing.T) {
			net := verbstest.NewSimulatedNetwork()
			begin := func(f func(*verbstest.SimulatedNetwork)) {
				if f != nil {
					f(net)
				}
			}
			begin(c.opening)
			lines, ds := openReporting(t, net, Settings{})
			begin(c.connecting)
			connectPeers(t, ds[0], ds[1])
			if c.connected != nil {
				checkLanes(t, ds, cm.Lane{}, cm.Lane{Rail: 1, Path: 0})
				begin(c.connected)
			}
			checkLanes(t, ds, cm.Lane{})
			for range 2 { // and again
				breakConn(t, ds[0], ds[1])
				checkLanes(t, ds, cm.Lane{})
			}
			newReader(t, ds[0], ds[1], 1<<20).run(ds)
			newReader(t, ds[1], ds[0], 1<<20).run(ds)
			lines.check(t, name, "device b0", c.want)
		})
	}
}

// TestSimulatedPathLeftOut: a device that has no room for a second path is used with one, and says so once.
func TestSimulatedPathLeftOut(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	lines, ds := openReporting(t, net, Settings{Paths: 2})
	var created atomic.Int32
	net.RefuseOn(func(device string, c verbstest.SimulatedCall) error {
		if device == "b0" && c == verbstest.CallCreateQP && created.Add(1)%2 == 0 {
			return syscall.ENOMEM
		}
		return nil
	})
	connectPeers(t, ds[0], ds[1])
	checkLanes(t, ds, cm.Lane{}, cm.Lane{Rail: 0, Path: 1}, cm.Lane{Rail: 1, Path: 0})
	newReader(t, ds[0], ds[1], 1<<20).run(ds)
	lines.check(t, "one path", "RDMA device b0 uses 1 of 2 paths", "ibv_create_qp: cannot allocate memory")
}

// TestSimulatedNamedAfter: a named device that cannot be used leaves out those named after it. The line says so.
func TestSimulatedNamedAfter(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	refuseOn(net, "b", verbstest.CallCreateQP, syscall.EPERM)
	var lines []string
	tr := &Transport{Settings: Settings{Devices: []string{"a", "b", "c:1", "d"}}, Network: net.Node(),
		Report: func(text string) { lines = append(lines, text) }}
	d := openTransports(t, []*Transport{tr})[0]
	if got := d.settings.Devices; len(got) != 1 || got[0] != "a" {
		t.Errorf("uses %q", got)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "device b") || !strings.HasSuffix(lines[0], "not used either: c:1, d") {
		t.Errorf("reported: %q", lines)
	}
}
