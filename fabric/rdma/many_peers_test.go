//go:build linux

package rdma

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// crowd is a device that stands for all peers of a domain, which is peer 0. Each of them has a queue pair and no more.
type crowd struct {
	t   testing.TB
	net *verbstest.SimulatedNetwork // nil over the mock of libibverbs
	d   *domain                     // peer 0
	all *domain                     // has the resources of the others; nothing calls its Poll
	qps map[uint32]*posting.QueuePair
	wcs [16]verbs.WC
}

// openCrowd opens a domain and n peers on a simulated network. They are not connected.
func openCrowd(t testing.TB, set Settings, n int) *crowd {
	t.Helper()
	net := verbstest.NewSimulatedNetwork()
	c := openCrowdOn(t, &Transport{Settings: set, Network: net.Node()}, [2]string{"a", "b"}, n)
	c.net = net
	return c
}

// openCrowdOn is openCrowd with a transport. The domain has the first device, its peers share the second.
func openCrowdOn(t testing.TB, tr *Transport, devices [2]string, n int) *crowd {
	t.Helper()
	c := &crowd{t: t, qps: map[uint32]*posting.QueuePair{}}
	rand.Read(tr.Key[:])
	for i, d := range []**domain{&c.d, &c.all} {
		tr.Settings.Devices = []string{devices[i]}
		fd, err := tr.Open(t.Context(), &fabric.Config{Self: i, Size: n + 1})
		if err != nil {
			t.Fatal(err)
		}
		*d = fd.(*domain)
		(*d).cm.Resolver.Direct = true // in a goroutine one would not see whose memory it is
	}
	if err := c.all.recvs.Reserve(8 * messages.BlockSlots); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // nobody would answer if these were closed in order
		for _, d := range []*domain{c.d, c.all} {
			d.closed = true
			if err := d.release(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := 1; i <= n; i++ {
		if _, err := c.d.Connect(i, c.all.addr); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// connect connects the domain to all peers.
func (c *crowd) connect() {
	c.t.Helper()
	var evs [16]fabric.Event
	for _, e := range c.d.eps[1:] {
		e.d.cm.request(e)
	}
	maxMissed := c.d.liveness.MaxMissed
	c.d.liveness.MaxMissed = math.MaxInt // none is lost, however long it takes to connect all
	for all := c.d.size - 1; len(c.d.keepalives.Peers) < all; {
		connected := len(c.d.keepalives.Peers)
		waittest.Poll(c.t, fmt.Sprintf("%d of %d peers are connected, and another one", connected, all), func() bool {
			if n, err := c.d.Poll(evs[:]); n != 0 || err != nil {
				c.t.Fatalf("%d of %d peers are connected; %v, %v", connected, all, evs[:n], err)
			}
			c.answer()
			return len(c.d.keepalives.Peers) > connected
		})
	}
	c.drain()
	c.d.liveness.MaxMissed = maxMissed
}

// drain lets both sides handle everything that needs no timer.
func (c *crowd) drain() (evs []fabric.Event) {
	c.t.Helper()
	var buf [16]fabric.Event
	for quiet := 0; quiet < 4; quiet++ {
		c.answer()
		n, err := c.d.Poll(buf[:])
		if err != nil {
			c.t.Fatal(err)
		}
		if err := c.d.completions.pollAllSends(); err != nil {
			c.t.Fatal(err)
		}
		if evs = append(evs, buf[:n]...); n > 0 {
			quiet = 0
		}
	}
	return evs
}

// answer answers the connection requests that have arrived, as any peer that was asked for, and drops messages.
func (c *crowd) answer() {
	c.t.Helper()
	a := c.all
	for n := len(c.wcs); n == len(c.wcs); {
		var err error
		if n, err = a.rails[0].RecvCQ.Poll(c.wcs[:]); err != nil {
			c.t.Fatal(err)
		}
		for _, wc := range c.wcs[:n] {
			if !a.rails[0].IsDatagram(wc.QPN) {
				a.recvs.Post(nil, uint32(wc.ID))
				continue
			}
			a.cm.Socket.Received(&wc)
			m := a.cm.Socket.Next()
			if m == nil || a.cm.Socket.Failed {
				c.t.Fatalf("not a datagram of the job, or its slot was not posted again: %+v", wc)
			}
			if m.Kind == cm.REQ {
				c.accept(m)
			}
		}
	}
}

// accept connects a queue pair to that in a REQ, and sends the REP.
func (c *crowd) accept(req *cm.Message) {
	c.t.Helper()
	r := c.all.rails[0]
	peer := c.d.rails[0].RailAddress(c.d.cm.Responder.QueuePairs())
	q, err := r.newQueuePair(0, req.Epoch, 0, &peer)
	if err == nil {
		err = q.QP.ConnectWith(req.Pairs[0].At(peer.Address), c.all.cm.params)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.qps[req.To] = q
	rep := cm.Message{
		Kind: cm.REP, From: req.To, To: 0, Size: req.Size, Epoch: req.Epoch, FromIncarnation: c.all.cm.Incarnation,
		ToIncarnation: req.FromIncarnation, Grant: messages.InitialWindow, Lanes: 1, ReqQP: req.Pairs[0], Address: c.all.addr,
	}
	rep.Pairs[0] = q.Info
	e := &endpoint{d: c.all}
	e.addr.Address = c.d.eps[req.To].addr.Address
	e.addr.Rails = []cm.RailAddress{peer}
	if err := e.sendDatagram(&rep); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.all.completions.pollSends(r); err != nil {
		c.t.Fatal(err)
	}
}

// kill removes the queue pair of a peer.
func (c *crowd) kill(peer int) {
	c.t.Helper()
	if err := c.qps[uint32(peer)].QP.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// interval runs the ticks of one keepalive interval, and returns how many peers each of them visited. It may end one tick late.
func (c *crowd) interval(each func(visits int)) {
	c.t.Helper()
	d := c.d
	for end := d.keepalives.At + d.liveness.Interval; d.keepalives.At < end; {
		before, n := d.keepalives.Next, len(d.keepalives.Peers)
		d.clock.Next = 0
		if err := d.tick(d.keepalives.At); err != nil {
			c.t.Fatal(err)
		}
		visits := d.keepalives.Next - before
		if visits < 0 {
			visits += n
		}
		each(visits)
	}
}

// forget makes each peer look as if it had just given a sign of life: connecting them may take longer than some of them are idle
// before they are probed. The network is paused.
func (c *crowd) forget() {
	c.t.Helper()
	if err := c.d.completions.pollAllSends(); err != nil {
		c.t.Fatal(err)
	}
	for _, e := range c.d.keepalives.Peers {
		e.keepalive = liveness.State{Alive: true}
	}
}

// probes returns how many keepalive WRITEs are in flight, and the largest number to one peer.
func (c *crowd) probes() (total, most int) {
	for _, e := range c.d.keepalives.Peers {
		q := e.lanes.Queues[0]
		probes := 0
		for i := q.Oldest(); i != q.Next(); i++ {
			if q.At(i).Kind == posting.Keepalive {
				probes++
			}
		}
		total, most = total+probes, max(most, probes)
	}
	return total, most
}

// manyPeers is how many peers the tests below connect, or more with IBRUN_SOAK=1.
func manyPeers(few int) int {
	return soaktest.Choose(10_000, few)
}

// TestSimulatedManyPeers: the keepalive visits each connected peer once in an interval, few of them in a tick. An idle peer has
// one probe in flight, and the probes are spread over time. A lost peer is found within two times the heartbeat.
func TestSimulatedManyPeers(t *testing.T) {
	n := manyPeers(300)
	c := openCrowd(t, Settings{}, n)
	c.connect()
	c.net.SetPaused(true)
	c.forget()
	d := c.d
	visited, ticks := 0, 0
	c.interval(func(visits int) {
		if visits > liveness.MaxVisits {
			t.Errorf("a tick visits %d peers, want at most %d", visits, liveness.MaxVisits)
		}
		visited, ticks = visited+visits, ticks+1
	})
	if least := n / liveness.MaxVisits; visited < n || visited > n+2*liveness.MaxVisits || ticks < least {
		t.Errorf("in an interval %d of %d peers are visited by %d ticks, want each once by at least %d", visited, n, ticks, least)
	}
	for _, e := range d.keepalives.Peers {
		if e.keepalive.Alive {
			t.Fatalf("peer %d was not visited", e.peer)
		}
	}
	c.forget()
	c.checkProbesSpread(n)
	c.net.SetPaused(false)
	c.drain()
	if total, _ := c.probes(); total != 0 || d.rails[0].room.InFlight() != 0 {
		t.Errorf("%d probes and %d requests are in flight", total, d.rails[0].room.InFlight())
	}
	c.checkLost(n)
}

// checkProbesSpread: the network is paused and every peer idle.
func (c *crowd) checkProbesSpread(n int) {
	c.t.Helper()
	l := &c.d.liveness
	room := min(n, c.d.rails[0].room.MaxInFlight)
	last, most, intervals := 0, 0, 0
	for total := 0; total < room; intervals++ {
		if intervals > l.MaxMissed/2+2 {
			c.t.Fatalf("after %d intervals %d of %d peers were probed", intervals, total, n)
		}
		c.interval(func(int) {})
		total, _ = c.probes()
		most = max(most, total-last)
		last = total
	}
	if share := n/(l.MinIdle+1) + liveness.MaxVisits; intervals <= l.MinIdle || most > share {
		c.t.Errorf("%d peers are probed within %d intervals, up to %d in one interval, want at most %d", n, intervals, most, share)
	}
	c.interval(func(int) {})
	if total, most := c.probes(); most != 1 || total != room {
		c.t.Errorf("%d probes are in flight, up to %d to a peer, want one to each of %d", total, most, room)
	}
}

// checkLost kills a peer. It is reported within two times the heartbeat, and no other is.
func (c *crowd) checkLost(n int) {
	c.t.Helper()
	c.kill(n / 2)
	for intervals := 1; ; intervals++ {
		c.interval(func(int) {})
		evs := c.drain()
		if len(evs) == 0 && intervals < 2*c.d.liveness.MaxMissed {
			continue
		}
		if len(evs) != 1 || evs[0].Kind != fabric.PeerDown || int(evs[0].Peer) != n/2 || !errors.Is(evs[0].Err, fabric.ErrPeerDown) {
			c.t.Errorf("after %d intervals: %+v", intervals, evs)
		}
		c.t.Logf("found after %d intervals, a heartbeat is %d", intervals, c.d.liveness.MaxMissed)
		return
	}
}

// TestSimulatedFewReceives: there are fewer receive slots than peers need. All the same they are all connected, and messages of
// all of them arrive.
func TestSimulatedFewReceives(t *testing.T) {
	const n = 200
	c := openCrowd(t, Settings{}, n)
	c.d.recvs.Limit = 3 * messages.BlockSlots
	c.connect()
	if total := c.d.recvs.Total(); total > 3*messages.BlockSlots {
		t.Fatalf("%d receive slots", total)
	}
	slot, _ := c.all.poster.Sends.Take()
	h := messages.Header{Kind: messages.Data}
	h.Put(c.all.poster.Sends.Mem(slot))
	for _, q := range c.qps {
		sge := c.all.poster.Sends.SGE(slot, messages.HeaderBytes)
		if err := errors.Join(q.QP.Send(0, verbs.Signaled, sge), q.QP.Ring()); err != nil {
			t.Fatal(err)
		}
	}
	if evs := c.drain(); len(evs) != n {
		t.Errorf("%d of %d messages arrive", len(evs), n)
	}
}

// TestSimulatedPeerMemory: a connected peer uses at most 16 KiB in this process, without what its queue pair needs in the device
// and its driver.
func TestSimulatedPeerMemory(t *testing.T) {
	n := manyPeers(300)
	heap, slots := peerMemory(t, n, func(n int) *crowd { return openCrowd(t, Settings{}, n) })
	if heap+slots > 16<<10 {
		t.Errorf("a connected peer uses %d bytes of the heap and %d of slots, want at most %d together", heap, slots, 16<<10)
	}
}

// peerMemory returns how many bytes each of n connected peers uses: the difference between a domain with n+1 peers and one with a
// single peer, so that it has no part of what a domain or the process needs once. open opens a domain with so many peers.
func peerMemory(t *testing.T, n int, open func(n int) *crowd) (heap, slots int) {
	t.Helper()
	rate := runtime.MemProfileRate
	defer func() { runtime.MemProfileRate = rate }()
	connected := func(n int) (bytes, slots int) {
		before := heapOfDomain()
		runtime.MemProfileRate = 1
		c := open(n)
		c.connect()
		runtime.MemProfileRate = rate
		return heapOfDomain() - before, c.d.recvs.Reserved * c.d.settings.Slot
	}
	connected(1) // allocates what the process needs once, such as the tables of checksums
	oneHeap, oneSlots := connected(1)
	allHeap, allSlots := connected(n + 1)
	heap, slots = (allHeap-oneHeap)/n, (allSlots-oneSlots)/n
	t.Logf("a connected peer uses %d bytes of the heap and %d of slots", heap, slots)
	if heap < 1000 {
		t.Errorf("the heap was not measured")
	}
	return heap, slots
}

// heapOfDomain returns how many bytes of the heap were allocated on behalf of domains, without the crowd and what the simulated
// devices allocate.
func heapOfDomain() (bytes int) {
	runtime.GC() // the profile is of the time before the last but one collection
	runtime.GC()
	runtime.GC()
	var records []runtime.MemProfileRecord
	for n, ok := runtime.MemProfile(nil, false); !ok; n, ok = runtime.MemProfile(records, false) {
		records = make([]runtime.MemProfileRecord, n+100)
	}
	for i := range records {
		if r := &records[i]; isOfDomain(r.Stack()) {
			bytes += int(r.InUseBytes())
		}
	}
	return bytes
}

func isOfDomain(stack []uintptr) (ours bool) {
	frames := runtime.CallersFrames(stack)
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case strings.Contains(f.Function, "/verbstest."), strings.Contains(f.Function, ".(*crowd).answer"):
			return false // the peers and the devices
		case strings.Contains(f.Function, "unix.(*mmapper)"):
			return false // the table of all mappings of the process, whose size depends on the tests before
		case strings.Contains(f.Function, "rdma.(*domain)"):
			ours = true
		}
	}
	return ours
}

// BenchmarkKeepaliveTick measures a tick of a domain with many connected peers.
func BenchmarkKeepaliveTick(b *testing.B) {
	c := openCrowd(b, Settings{}, manyPeers(2000))
	c.connect()
	benchmarkTick(b, c)
}

func benchmarkTick(b *testing.B, c *crowd) {
	b.Helper()
	d := c.d
	for b.Loop() {
		d.clock.Next = 0
		if err := d.tick(d.keepalives.At); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSimulatedUnsignaled: a request without a completion stays in flight in the queue pair of each of more peers than the
// completion queue has room for. All the same there is always room for a message.
func TestSimulatedUnsignaled(t *testing.T) {
	const n = 100
	c := openCrowd(t, Settings{}, n)
	c.connect()
	r := c.d.rails[0]
	r.room.MaxInFlight, r.room.SignalAll = n/2, n/4
	for _, e := range c.d.eps[1:] {
		c.net.SetPaused(true)
		e.msgs.Out.Grant++
		for i := range 2 { // the second needs no completion, because the first has one
			if err := e.Send(nil, nil); err != nil {
				t.Fatalf("message %d to peer %d: %v; %d requests are in flight", i, e.peer, err, c.d.rails[0].room.InFlight())
			}
		}
		c.net.SetPaused(false)
		c.drain()
	}
	if c.d.rails[0].room.InFlight() == 0 {
		t.Error("each request had a completion")
	}
}
