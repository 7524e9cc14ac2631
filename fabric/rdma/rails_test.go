//go:build linux

package rdma

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// openRails opens two peers with so many rails each: devices a0, b0 ... of the first, and a1, b1 ... of the second.
func openRails(t *testing.T, net *verbstest.SimulatedNetwork, set Settings, rails int) []*domain {
	t.Helper()
	var trs []*Transport
	for i := range 2 {
		set.Devices = nil
		for r := range rails {
			set.Devices = append(set.Devices, railName(r, i))
		}
		trs = append(trs, &Transport{Settings: set, Network: net.Node()})
	}
	return openTransports(t, trs)
}

// railName returns the name of the device of a rail of a peer.
func railName(rail, peer int) string { return fmt.Sprintf("%c%d", 'a'+rail, peer) }

// reader reads memory of a peer again and again, and checks what arrives.
type reader struct {
	t         *testing.T
	d         *domain
	peer      int
	src, dst  []byte
	far, near fabric.Region
	running   bool
	reads     int
}

// newReader returns a reader of so many bytes of b's memory by a.
func newReader(t *testing.T, a, b *domain, n int) *reader {
	t.Helper()
	r := &reader{t: t, d: a, peer: b.self, src: make([]byte, n), dst: make([]byte, n)}
	random := rand.New(rand.NewPCG(uint64(n), 0))
	for i := range r.src {
		r.src[i] = byte(random.Uint32())
	}
	var err1, err2 error
	r.far, err1 = b.Register(r.src)
	r.near, err2 = a.Register(r.dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return r
}

// start begins to read.
func (r *reader) start() {
	r.t.Helper()
	clear(r.dst)
	done, err := r.d.eps[r.peer].Read(r.dst, r.near, r.far.Remote, uint64(r.reads))
	if err != nil || done {
		r.t.Fatal(done, err)
	}
	r.running = true
}

// end checks the event that a read has ended.
func (r *reader) end(ev *fabric.Event) {
	r.t.Helper()
	if ev.Kind != fabric.Done || ev.Err != nil || !r.running || ev.Token != uint64(r.reads) || !bytes.Equal(r.src, r.dst) {
		r.t.Fatalf("%+v during read %d, or wrong bytes", ev, r.reads)
	}
	r.running = false
	r.reads++
}

// run reads once.
func (r *reader) run(ds []*domain) {
	r.t.Helper()
	r.start()
	waittest.Poll(r.t, "the read ends", func() bool {
		for _, d := range ds {
			for _, ev := range pollTimes(r.t, d, 1) {
				r.end(&ev)
			}
		}
		return !r.running
	})
}

// lanesOf returns the lanes of the connection of a to b.
func lanesOf(a, b *domain) (list []cm.Lane) {
	for _, q := range a.eps[b.self].lanes.Queues {
		list = append(list, q.Info.Lane)
	}
	return list
}

// checkLanes waits until both peers are connected by these lanes.
func checkLanes(t *testing.T, ds []*domain, want ...cm.Lane) {
	t.Helper()
	waittest.Poll(t, fmt.Sprintf("the peers are connected by the lanes %v", want), func() bool {
		for _, d := range ds {
			if got := pollTimes(t, d, 1); len(got) > 0 {
				t.Fatalf("%+v", got)
			}
		}
		return slices.Equal(lanesOf(ds[0], ds[1]), want) && slices.Equal(lanesOf(ds[1], ds[0]), want) &&
			ds[0].eps[1].conn.State == cm.StateEstablished && ds[1].eps[0].conn.State == cm.StateEstablished
	})
}

// TestSimulatedRailPortDown: the link of the second rail of a peer goes down. With or without an event, a read in progress ends
// over the first rail. With an event that says that the link is up, both rails are used again.
func TestSimulatedRailPortDown(t *testing.T) {
	for _, event := range []bool{true, false} {
		net := verbstest.NewSimulatedNetwork()
		ds := openRails(t, net, Settings{}, 2)
		connectPeers(t, ds[0], ds[1])
		checkLanes(t, ds, cm.Lane{}, cm.Lane{Rail: 1, Path: 0})
		r := newReader(t, ds[0], ds[1], 3<<20)
		r.run(ds)
		r.start()
		if event {
			setPort(net, "b1", verbs.PortDown)
		} else {
			net.SetPort("b1", verbstest.SimulatedPort{State: verbs.PortDown})
		}
		waittest.Poll(t, "the read ends", func() bool {
			for _, d := range ds {
				for _, ev := range pollTimes(t, d, 1) {
					r.end(&ev)
				}
			}
			return !r.running
		})
		checkLanes(t, ds, cm.Lane{})
		r.run(ds)
		setPort(net, "b1", verbs.PortActive)
		if !event {
			ds[0].eps[1].avoidUntil = 0 // as after a minute
			pollTimes(t, ds[0], 1)
			ds[0].clock.Next, ds[0].keepalives.At = 0, 0
		}
		checkLanes(t, ds, cm.Lane{}, cm.Lane{Rail: 1, Path: 0})
		r.run(ds)
	}
}

// TestSimulatedRailLost: the device of the second rail of a peer is lost, while it polls and while it sleeps. No peer is lost,
// and messages and transfers travel over the first rail.
func TestSimulatedRailLost(t *testing.T) {
	for _, asleep := range []bool{false, true} {
		net := verbstest.NewSimulatedNetwork()
		ds := openRails(t, net, Settings{}, 2)
		connectPeers(t, ds[0], ds[1])
		r := newReader(t, ds[0], ds[1], 3<<20)
		r.run(ds)
		if asleep {
			pollTimes(t, ds[0], enoughPolls)
			armsReady(t, ds[0])
		} else {
			r.start()
		}
		net.RemoveDevice("b0")
		if asleep {
			waittest.Until(t, "the sleep ends", func() bool { return readable(t, ds[0].sleeper.FD()) })
			pollTimes(t, ds[0], 1)
			r.start()
		}
		waittest.Poll(t, "the read ends", func() bool {
			for _, d := range ds {
				for _, ev := range pollTimes(t, d, 1) {
					r.end(&ev)
				}
			}
			return !r.running
		})
		waittest.Poll(t, "the device is lost", func() bool {
			pollTimes(t, ds[0], 1)
			return ds[0].rails[1].room.Lost
		})
		checkLanes(t, ds, cm.Lane{})
		newReader(t, ds[0], ds[1], 1<<20).run(ds) // memory that is registered from now on
		newReader(t, ds[1], ds[0], 1<<20).run(ds)
		pollTimes(t, ds[0], enoughPolls)
		armsReady(t, ds[0])
		pollTimes(t, ds[0], 1)
	}
}

// TestSimulatedRailsBreak: queue pairs of random rails and paths fail, and links of rails beyond the first go down and up, with
// and without events, while messages travel in both directions and long reads in one. No message is lost or delivered twice,
// every read ends with the right bytes, and no slot is lost. With IBRUN_SOAK=1 that happens 1,000 times.
func TestSimulatedRailsBreak(t *testing.T) {
	breaks := soaktest.Choose(1000, 40)
	for name, late := range map[string]bool{"completions are kept": false, "late completions": true} {
		t.Run(name, func(t *testing.T) {
			seed := soaktest.Seed(t)
			rnd := rand.New(rand.NewPCG(seed, 1))
			net := verbstest.NewSimulatedNetwork()
			if late {
				net = adapters(rand.New(rand.NewPCG(seed, 2)))
			}
			breakRails(t, rnd, net, breaks)
		})
	}
}

// breakRails does what TestSimulatedRailsBreak says.
func breakRails(t *testing.T, rnd *rand.Rand, net *verbstest.SimulatedNetwork, breaks int) {
	t.Helper()
	const rails = 3
	ds := openRails(t, net, Settings{Paths: 2, Window: 8}, rails)
	for _, d := range ds {
		d.cm.closing.StepAt = liveness.Never // so that only the last completions end a teardown
	}
	connectPeers(t, ds[0], ds[1])
	r := newReader(t, ds[0], ds[1], 1<<20)
	down := map[string]bool{}
	left, sent, got := breaks, [2]uint32{}, [2]uint32{}
	defer waittest.LogIfFailed(t, func() string { return fmt.Sprintf("%d reads; %s", r.reads, breakState(ds, left, sent, got)) })
	waittest.Poll(t, "all connections break, and all messages and reads arrive", func() bool {
		for i, d := range ds {
			if e := d.eps[1-i]; left > 0 && rnd.IntN(100) == 0 {
				left--
				if name := railName(1+rnd.IntN(rails-1), i); e.conn.State == cm.StateEstablished && rnd.IntN(3) == 0 {
					failQuietly(t, e.lanes.Queues[rnd.IntN(len(e.lanes.Queues))])
				} else {
					down[name] = !down[name]
					flipPort(net, name, down[name], rnd.IntN(2) == 0)
				}
			}
			if left > 0 && d.eps[1-i].Send(binary.NativeEndian.AppendUint32(nil, sent[i]), nil) == nil {
				sent[i]++
			}
			got[i] += pollReader(t, d, got[i], r)
		}
		if left > 0 && !r.running {
			r.start()
		}
		return left == 0 && !r.running && got[0] == sent[1] && got[1] == sent[0]
	})
	connectPeers(t, ds[0], ds[1])
	awaitSlots(t, net, ds)
	for i, d := range ds {
		for rail, r := range d.rails {
			n := r.room.InFlight()
			if n < 0 || n > d.eps[1-i].lanes.Queues[0].InFlight() {
				t.Errorf("peer %d counts %d requests in flight over rail %d", i, n, rail)
			}
		}
	}
	t.Logf("%d breaks, %d messages, %d reads", breaks, sent[0]+sent[1], r.reads)
}

// flipPort takes the link of a device down or up, with an event or without.
func flipPort(net *verbstest.SimulatedNetwork, device string, down, event bool) {
	state := verbs.PortActive
	if down {
		state = verbs.PortDown
	}
	if event {
		setPort(net, device, state)
	} else {
		net.SetPort(device, verbstest.SimulatedPort{State: state})
	}
}

// pollReader polls once, and returns how many messages there were. They must have the numbers from next on.
func pollReader(t *testing.T, d *domain, next uint32, r *reader) (n uint32) {
	t.Helper()
	for _, ev := range pollTimes(t, d, 1) {
		switch {
		case ev.Kind == fabric.Done && d == r.d:
			r.end(&ev)
		case ev.Kind != fabric.Message || binary.NativeEndian.Uint32(ev.Data) != next+n:
			t.Fatalf("peer %d got %+v in place of message %d", d.self, ev, next+n)
		default:
			n++
		}
	}
	return n
}

// TestSimulatedPaths: the queue pairs of a connection with several paths use different LIDs of InfiniBand ports with LMC, or
// different flow labels, at both ends the same. A long read uses all of them. The peer with fewer paths decides.
func TestSimulatedPaths(t *testing.T) {
	const paths = 3
	for name, port := range map[string]verbstest.SimulatedPort{
		"InfiniBand": {LinkLayer: "InfiniBand", LMC: 2, MTU: verbs.MTU2048}, "RoCE": {},
	} {
		t.Run(name, func(t *testing.T) {
			net := verbstest.NewSimulatedNetwork()
			for i := range 2 {
				if port.LMC > 0 {
					port.LID = uint16(8 * (i + 1))
				}
				net.SetPort(railName(0, i), port)
			}
			ds := openTransports(t, []*Transport{
				{Settings: Settings{Devices: []string{"a0"}, Paths: paths}, Network: net.Node()},
				{Settings: Settings{Devices: []string{"a1"}, Paths: paths + 1}, Network: net.Node()},
			})
			connectPeers(t, ds[0], ds[1])
			checkLanes(t, ds, cm.Lane{}, cm.Lane{Rail: 0, Path: 1}, cm.Lane{Rail: 0, Path: 2})
			checkPaths(t, ds, port.LMC > 0)
			before := tails(ds[0].eps[1])
			newReader(t, ds[0], ds[1], 4<<20).run(ds)
			for i, tail := range tails(ds[0].eps[1]) {
				if tail-before[i] < 3 {
					t.Errorf("%d pieces of the read went over path %d", tail-before[i], i)
				}
			}
		})
	}
}

// checkPaths checks what distinguishes the paths of two peers.
func checkPaths(t *testing.T, ds []*domain, infiniBand bool) {
	t.Helper()
	labels := map[uint32]bool{}
	for i := range ds[0].eps[1].lanes.Queues {
		var at [2]verbs.Attr
		for k, d := range ds {
			var err error
			if at[k], err = d.eps[1-k].lanes.Queues[i].QP.Query(verbs.AttrAH); err != nil {
				t.Fatal(err)
			}
		}
		a, b := at[0].AH, at[1].AH
		switch {
		case infiniBand && (int(a.PathBits) != i || a.LID != 16+uint16(i) || int(b.PathBits) != i || b.LID != 8+uint16(i)):
			t.Errorf("path %d: %+v and %+v", i, a, b)
		case !infiniBand && (a.FlowLabel != b.FlowLabel || labels[a.FlowLabel] || i == 0 && a.FlowLabel != 0):
			t.Errorf("path %d: flow labels %#x and %#x", i, a.FlowLabel, b.FlowLabel)
		}
		labels[a.FlowLabel] = true
	}
}

// tails returns how many requests were posted to each queue pair of a connection.
func tails(e *endpoint) (list []uint32) {
	for _, q := range e.lanes.Queues {
		list = append(list, q.Next())
	}
	return list
}

// TestSimulatedPathsRefused: a device that has no queue pairs left for the paths serves the first one alone.
func TestSimulatedPathsRefused(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ds := openRails(t, net, Settings{Paths: 4}, 1)
	created := 0
	net.Refuse(func(c verbstest.SimulatedCall) error {
		if c == verbstest.CallCreateQP {
			if created++; created%4 != 1 { // the first of each peer is granted
				return syscall.ENOMEM
			}
		}
		return nil
	})
	connectPeers(t, ds[0], ds[1])
	checkLanes(t, ds, cm.Lane{})
}
