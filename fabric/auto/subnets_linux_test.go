package auto

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// cluster is a job with one process on each node, whose devices are simulated.
type cluster struct {
	t   *testing.T
	net *verbstest.SimulatedNetwork
	ds  []fabric.Domain

	mu    sync.Mutex // for notes: processes are closed concurrently
	notes []string   // what was reported

	ended []error // of reads

	asked atomic.Int32 // calls of Node.Address

	beforePoll func(i int) // is called before each Poll of a process, unless nil
	rare       string      // the process that polls rarely, empty if none does
	rounds     int         // calls of pollAll
}

// newCluster opens a process on a node for each element, which lists its devices: ib for an InfiniBand port, eth for an Ethernet
// port, and eth2 for one in another IP network.
func newCluster(t *testing.T, heartbeat time.Duration, nodes ...string) *cluster {
	t.Helper()
	return newClusterOn(t, verbstest.NewSimulatedNetwork(), heartbeat, nodes...)
}

// newClusterOn is newCluster on a given network. Each device has the name of its kind and the number of its node, as in eth-1.
func newClusterOn(t *testing.T, net *verbstest.SimulatedNetwork, heartbeat time.Duration, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, net: net, ds: make([]fabric.Domain, len(nodes))}
	for i, names := range nodes {
		var devices []string
		for _, kind := range strings.Fields(names) {
			name := fmt.Sprintf("%s-%d", kind, i)
			p := verbstest.SimulatedPort{Rate: 100e9, LID: uint16(i + 1), LinkLayer: hw.LinkInfiniBand}
			if kind != "ib" {
				subnet := map[string]byte{"eth": 1, "eth2": 2}[kind]
				p = verbstest.SimulatedPort{Rate: 100e9, GIDs: []hw.GID{{Index: 3, Type: hw.GIDRoCEv2, Netdev: "eth0",
					Addr: netip.AddrFrom16(netip.AddrFrom4([4]byte{10, 0, subnet, byte(i + 1)}).As16())}}}
			}
			c.net.SetPort(name, p)
			devices = append(devices, name)
		}
		n := Node{Key: [32]byte{1}, Local: []int{i}, Interfaces: []string{"lo"}, network: c.net.Node(devices...),
			Heartbeat: heartbeat,
			Address: func(peer int) []byte {
				c.asked.Add(1)
				return c.ds[peer].Addr()
			},
			ReportPeer: func(_ int, text string) { c.note(i, text) },
			Report:     func(text string) { c.note(i, text) }}
		d, err := Open(context.Background(), &fabric.Config{Self: i, Size: len(nodes)}, n)
		if err != nil {
			t.Fatal(err)
		}
		c.ds[i] = d
	}
	t.Cleanup(c.close)
	return c
}

// note adds what a process reports.
func (c *cluster) note(i int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, fmt.Sprintf("%d: %s", i, text))
}

// close closes all processes.
func (c *cluster) close() {
	var all sync.WaitGroup // each waits for the others
	for _, d := range c.ds {
		all.Go(func() {
			if err := d.Close(); err != nil {
				c.t.Error(err)
			}
		})
	}
	all.Wait()
}

// poll polls a process, and handles the event Rerouted as callers must.
func (c *cluster) poll(i int) (got []string) {
	c.t.Helper()
	if c.beforePoll != nil {
		c.beforePoll(i)
	}
	var evs [8]fabric.Event
	n, err := c.ds[i].Poll(evs[:])
	if err != nil {
		c.t.Fatal(err)
	}
	for _, ev := range evs[:n] {
		switch ev.Kind {
		case fabric.Message:
			got = append(got, string(ev.Data))
		case fabric.Rerouted:
			c.connect(i, int(ev.Peer))
		case fabric.Done:
			c.ended = append(c.ended, ev.Err)
		case fabric.PeerDown:
			c.t.Fatalf("process %d lost process %d: %v", i, ev.Peer, ev.Err)
		}
	}
	return got
}

func (c *cluster) connect(from, to int) fabric.Endpoint {
	c.t.Helper()
	ep, err := c.ds[from].Connect(to, c.ds[to].Addr())
	if err != nil {
		c.t.Fatal(err)
	}
	return ep
}

// exchange sends a message from each process to each other, and polls the listed processes, all if there are none, until they
// have received all.
func (c *cluster) exchange() {
	c.t.Helper()
	type message struct{ from, to int }
	var unsent []message
	var got, want []string
	for from := range c.ds {
		for to := range c.ds {
			if from != to {
				unsent = append(unsent, message{from, to})
				want = append(want, fmt.Sprintf("%d to %d", from, to))
			}
		}
	}
	defer waittest.LogIfFailed(c.t, func() string { return fmt.Sprintf("got %q, want %q", got, want) })
	waittest.Poll(c.t, "all messages arrive", func() bool {
		unsent = slices.DeleteFunc(unsent, func(m message) bool {
			err := c.connect(m.from, m.to).Send([]byte(fmt.Sprintf("%d to ", m.from)), []byte(fmt.Sprint(m.to)))
			if err != nil && !errors.Is(err, fabric.ErrAgain) {
				c.t.Fatal(err)
			}
			return err == nil
		})
		got = append(got, c.pollAll()...)
		return len(got) >= len(want)
	})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.t.Errorf("got %q, want %q", got, want)
	}
}

// rareRounds is in how many rounds a process polls once that polls rarely: it computes meanwhile. Then timers of others expire.
const rareRounds = 32

// pollAll polls each process as one that waits does, and returns the messages that have arrived.
func (c *cluster) pollAll() (got []string) {
	c.t.Helper()
	c.rounds++
	for i := range c.ds {
		if c.rare == fmt.Sprint(i) && c.rounds%rareRounds != 0 {
			continue
		}
		for range 64 {
			got = append(got, c.poll(i)...)
		}
	}
	return got
}

// route returns what a process uses to a peer: tcp, or the kind of the device.
func (c *cluster) route(from, to int) string {
	d := c.ds[from].(fabric.Router).Route(to)
	if s, ok := d.(interface{ Settings() rdma.Settings }); ok {
		kind, _, _ := strings.Cut(s.Settings().Devices[0], "-")
		return kind
	}
	return d.Caps().Transport
}

// routes returns those of all pairs, and checks that both ends use the same.
func (c *cluster) routes() string {
	var all []string
	for a := range c.ds {
		for b := a + 1; b < len(c.ds); b++ {
			all = append(all, fmt.Sprintf("%d-%d %s", a, b, c.route(a, b)))
			if x, y := c.route(a, b), c.route(b, a); x != y {
				c.t.Errorf("process %d uses %s to process %d, which uses %s", a, x, b, y)
			}
		}
	}
	return strings.Join(all, ", ")
}

// TestSubnets: each pair of processes uses the best subnet that both have a device of, and TCP without one. What the node of a
// third process has does not matter.
func TestSubnets(t *testing.T) {
	for _, c := range []struct{ nodes, want, note string }{
		{"ib,ib,ib", "0-1 ib, 0-2 ib, 1-2 ib", ""},
		{"eth,eth,eth", "0-1 eth, 0-2 eth, 1-2 eth", ""},
		{"ib eth,eth,eth ib", "0-1 eth, 0-2 ib, 1-2 eth", ""},
		{"eth ib,ib,eth", "0-1 ib, 0-2 eth, 1-2 tcp", "1: TCP is used instead of RDMA to process 2: "},
		{"eth eth2,eth2 eth,eth2", "0-1 eth, 0-2 eth2, 1-2 eth2", ""},
		{"ib,,ib", "0-1 tcp, 0-2 ib, 1-2 tcp", ""},
	} {
		t.Run(c.nodes, func(t *testing.T) {
			job := newCluster(t, 0, strings.Split(c.nodes, ",")...)
			job.exchange()
			if got := job.routes(); got != c.want {
				t.Errorf("the routes are %s, want %s", got, c.want)
			}
			if c.note == "" && len(job.notes) == 0 {
				return
			}
			if len(job.notes) != 1 || !strings.HasPrefix(job.notes[0], c.note) || !strings.Contains(job.notes[0], "InfiniBand") {
				t.Errorf("reported: %q", job.notes)
			}
		})
	}
}

// separated returns a function for SimulatedNetwork.Separate that loses packets from a process to another as in "0>1".
func separated(pairs ...string) func(from, to string) bool {
	return func(from, to string) bool {
		_, a, _ := strings.Cut(from, "-")
		_, b, _ := strings.Cut(to, "-")
		return slices.Contains(pairs, a+">"+b)
	}
}

// TestSeparated: two processes whose devices do not reach each other, although their addresses say so, use TCP, whichever
// direction is lost. No message is lost, one of the two says why, once, and other pairs still use RDMA.
func TestSeparated(t *testing.T) {
	t.Parallel()
	job := newCluster(t, 0, "ib", "ib", "ib", "ib")
	job.net.Separate(separated("0>1", "1>0", "0>2", "3>0"))
	began := time.Now()
	job.exchange()
	t.Logf("connected after %v: %q", time.Since(began), job.notes)
	job.exchange()
	if got, want := job.routes(), "0-1 tcp, 0-2 tcp, 0-3 tcp, 1-2 ib, 1-3 ib, 2-3 ib"; got != want {
		t.Errorf("the routes are %s, want %s", got, want)
	}
	for peer := 1; peer <= 3; peer++ {
		n := 0
		for _, note := range job.notes {
			from, text, _ := strings.Cut(note, ": TCP is used instead of RDMA to process ")
			to, _, _ := strings.Cut(text, ",")
			other := fmt.Sprint(peer)
			if (from == "0" && to == other || from == other && to == "0") && strings.Contains(text, "device ib-") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("process %d: reported %d times in %q", peer, n, job.notes)
		}
	}
	if len(job.notes) != 3 {
		t.Errorf("reported: %q", job.notes)
	}
}

// TestNextSubnet: two processes whose devices of the preferred subnet do not reach each other use the next subnet that both have,
// and TCP only if they do not reach each other there either. One of the two says so, once for each subnet. Other pairs use the
// preferred subnet.
func TestNextSubnet(t *testing.T) {
	for name, c := range map[string]struct {
		lost func(from, to string) bool
		want string
		note []string
	}{
		"one subnet": {separated("0>1", "1>0"), "0-1 eth, 0-2 ib, 1-2 ib", []string{"another RDMA subnet is used"}},
		"one way":    {separated("1>0"), "0-1 eth, 0-2 ib, 1-2 ib", []string{"another RDMA subnet is used"}},
		"two subnets": {separated("0>1", "1>0"), "0-1 tcp, 0-2 ib, 1-2 ib",
			[]string{"another RDMA subnet is used", "TCP is used instead of RDMA"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := newCluster(t, 0, "ib eth", "eth ib", "ib eth")
			job.net.Separate(func(from, to string) bool {
				return c.lost(from, to) && (name == "two subnets" || strings.HasPrefix(from, "ib"))
			})
			job.exchange()
			job.exchange()
			if got := job.routes(); got != c.want {
				t.Errorf("the routes are %s, want %s", got, c.want)
			}
			var got []string
			for _, n := range job.notes {
				from, text, _ := strings.Cut(n, ": ")
				text, _, _ = strings.Cut(text, " to process ")
				if got = append(got, text); from == "2" {
					t.Errorf("reported: %q", n)
				}
			}
			if !slices.Equal(got, c.note) {
				t.Errorf("reported: %q", job.notes)
			}
		})
	}
}

// TestSlowPeer: a process that does not poll for longer than the heartbeat, because it computes, is not lost, whether or not the
// devices reach each other. RDMA is used if they do.
func TestSlowPeer(t *testing.T) {
	t.Parallel()
	const heartbeat = 10 * time.Second // in which the goroutines of all processes are certain to run
	job := newCluster(t, heartbeat, "ib", "ib", "ib")
	job.net.Separate(separated("0>2", "2>0"))
	const step = 10 * time.Millisecond
	for range heartbeat * 6 / 5 / step {
		waittest.Elapse(t, step, "no process is lost")
		for peer := 1; peer <= 2; peer++ {
			if err := job.connect(0, peer).Send([]byte("early"), nil); err != fabric.ErrAgain {
				t.Fatalf("a message to a process that does not poll: %v", err)
			}
		}
		for range 64 {
			job.poll(0)
		}
	}
	job.exchange()
	if got, want := job.routes(), "0-1 ib, 0-2 tcp, 1-2 ib"; got != want || len(job.notes) != 1 {
		t.Errorf("the routes are %s, want %s; reported: %q", got, want, job.notes)
	}
}

// TestRefused: two processes use TCP if the devices of both, or of one, have no room for the connection.
func TestRefused(t *testing.T) {
	for name, granted := range map[string]int{"by both devices": 0, "by the device of the peer": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := newCluster(t, 0, "ib", "ib")
			var calls atomic.Int32
			job.net.Refuse(func(c verbstest.SimulatedCall) error {
				if c == verbstest.CallCreateQP && int(calls.Add(1)) > granted {
					return syscall.ENOMEM
				}
				return nil
			})
			job.exchange()
			if routes := job.routes(); routes != "0-1 tcp" || len(job.notes) != 1 ||
				!strings.Contains(job.notes[0], "TCP is used instead of RDMA to process") ||
				!strings.Contains(job.notes[0], syscall.ENOMEM.Error()) {
				t.Errorf("the routes are %s; reported: %q", routes, job.notes)
			}
		})
	}
}
