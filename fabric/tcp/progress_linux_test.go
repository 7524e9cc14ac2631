package tcp

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/tcpflow"
	"github.com/ibrun/ibrun/internal/waittest"
)

// testTimeout is the timeout of tests that set the time themselves.
const testTimeout = time.Hour

// helloPair returns two peers that have exchanged a message. They lose each other after testTimeout.
func helloPair(t *testing.T) (ds []*Domain, e *endpoint) {
	t.Helper()
	tr := &Transport{Key: [32]byte{5}, Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit, Timeout: testTimeout}
	ds = openDomains(t, tr, 2)
	e = connectTo(t, ds[0], 1, ds[1].Addr()).(*endpoint)
	connectTo(t, ds[1], 0, ds[0].Addr())
	sendAll(t, ds, e, 1, "hello")
	return ds, e
}

// awaitLost polls until each peer has lost the other, and returns the reasons.
func awaitLost(t *testing.T, ds []*Domain) (down [2]error) {
	t.Helper()
	pollUntilDone(t, "both peers are lost", func() string { return fmt.Sprint(down) }, func() bool {
		for i, d := range ds {
			if ev := pollOne(t, d); ev.Kind == fabric.PeerDown {
				down[i] = ev.Err
			}
		}
		return down[0] != nil && down[1] != nil
	})
	return down
}

// wantCause checks that an error of a lost peer says this, and names the MTU.
func wantCause(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, fabric.ErrPeerDown) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "MTU") {
		t.Errorf("%v, want %q and the MTU", err, want)
	}
}

// stalledSample is what the kernel tells from now on about a connection over which long packets are lost. The caller must hold
// the lock of the domain.
func (e *endpoint) stalledSample() *tcpflow.Sample {
	s := &tcpflow.Sample{Queued: 100_000, TCPInfo: unix.TCPInfo{State: 1, Unacked: 1, Retransmits: 3, Snd_wnd: 60_000,
		Snd_mss: 8948, Pmtu: 9000}}
	e.conn.flow.Observe(s, e.conn.flow.Since(), 0) // as many packets have arrived as it says
	s.Busy_time = 1e12                             // microseconds: there is something to acknowledge all the time
	return s
}

// TestNoProgress: if nothing arrives although the host answers, the connection is made again. The new one is left alone. If
// nothing arrives over it either, the peer is lost after the timeout, and both sides tell why.
func TestNoProgress(t *testing.T) {
	ds, e := helloPair(t)
	judge := func(stalled time.Duration) (attempt bool) {
		ds[0].mu.Lock()
		defer ds[0].mu.Unlock()
		s, now := e.stalledSample(), e.conn.flow.Since().Add(stalled)
		e.judge(s, e.conn.flow.Observe(s, now, 0), now)
		return e.conn.attempt != nil
	}
	if judge(testTimeout/suspectFraction - 1) {
		t.Error("another connection is tried too early")
	}
	if !judge(testTimeout / suspectFraction) {
		t.Fatal("no other connection is tried")
	}
	pollUntilDone(t, "the connection is made again", func() string { return describe(ds[0]) + describe(ds[1]) }, func() bool {
		pollOne(t, ds[0])
		pollOne(t, ds[1])
		n, _ := ds[0].Reconnects()
		return n == 1
	})
	if judge(testTimeout/suspectFraction+testTimeout/4) || judge(testTimeout-1) {
		t.Error("the new connection is replaced")
	}
	judge(testTimeout)
	down := awaitLost(t, ds)
	wantCause(t, down[0], "nothing has arrived there for 1h0m0s: its host answers, but long packets do not arrive")
	wantCause(t, down[1], "nothing that it sent has arrived here")
}

// TestToldOfStall: a peer over which nothing arrives learns that when the connection is made again, whichever side connects. If
// this process ends with the connection, the peer names the reason.
func TestToldOfStall(t *testing.T) {
	for _, client := range []bool{true, false} {
		t.Run(fmt.Sprintf("client %v", client), func(t *testing.T) { testToldOfStall(t, client) })
	}
}

func testToldOfStall(t *testing.T, client bool) {
	ds, e := helloPair(t)
	other := ds[1].peers[0]
	ds[0].mu.Lock()
	s, now := e.stalledSample(), e.conn.flow.Since().Add(testTimeout/suspectFraction)
	stalled := e.conn.flow.Observe(s, now, 0)
	if client {
		e.judge(s, stalled, now)
	}
	ds[0].mu.Unlock()
	if !client {
		ds[1].mu.Lock()
		other.suspect(time.Now())
		ds[1].mu.Unlock()
	}
	pollUntilDone(t, "both have made the connection again", func() string { return describe(ds[0]) + describe(ds[1]) }, func() bool {
		pollOne(t, ds[0])
		pollOne(t, ds[1])
		n, _ := ds[0].Reconnects()
		k, _ := ds[1].Reconnects()
		return n == 1 && k == 1
	})
	ds[0].mu.Lock()
	s = e.stalledSample()
	if e.conn.told {
		e.conn.flow.Observe(s, e.conn.flow.Since().Add(testTimeout), 0)
		e.notReached()
	} else {
		t.Error("the peer is not told")
	}
	ds[0].mu.Unlock()
	if err := ds[0].Close(); err != nil {
		t.Error(err)
	}
	var down error
	pollUntilDone(t, "the other peer is lost", func() string { return describe(ds[1]) }, func() bool {
		if ev := pollOne(t, ds[1]); ev.Kind == fabric.PeerDown {
			down = ev.Err
		}
		return down != nil
	})
	wantCause(t, down, "and its host refuses another one; it had connected again because nothing that it sent arrived here")
}

// TestUntoldOfStall: a connection that was made again for another reason is replaced once, so that the peer learns that nothing
// arrives.
func TestUntoldOfStall(t *testing.T) {
	ds, e := helloPair(t)
	ds[0].mu.Lock()
	defer ds[0].mu.Unlock()
	now := time.Now()
	for _, told := range []bool{true, false} {
		e.conn.flow, e.conn.told = vainFlow(now), told
		if e.judge(e.stalledSample(), testTimeout/suspectFraction, now); (e.conn.attempt == nil) != told {
			t.Errorf("told %v, attempt %v", told, e.conn.attempt != nil)
		}
	}
	if e.conn.stalled() != optionStalled {
		t.Error("the peer is not told")
	}
}

// TestLostWhileStalled: if a peer has answered while nothing arrived, neither side says that the node of the other is down.
func TestLostWhileStalled(t *testing.T) {
	ds, e := helloPair(t)
	other := ds[1].peers[0]
	ds[0].mu.Lock()
	e.conn.flow = vainFlow(time.Now())
	e.conn.flow.Observe(e.stalledSample(), e.conn.flow.Since().Add(testTimeout), 0)
	e.conn.told, e.conn.broken = true, errSilent
	reason := e.conn.lostReason(nil, e.d.now(), e.d.settings.timeout)
	wantCause(t, fmt.Errorf("%w: %w", fabric.ErrPeerDown, reason), "no other connection was made within 1h0m0s: "+
		"connection timed out: its host answers, but long packets do not arrive")
	ds[0].mu.Unlock()
	ds[1].mu.Lock()
	other.conn.noteStalls(false, true, other.d.now())
	other.conn.broken = errClosed
	other.lost(nil)
	ds[1].mu.Unlock()
	down := awaitLost(t, ds)[1]
	wantCause(t, down, "no other connection was made within 1h0m0s: connection timed out; it had connected again because nothing "+
		"that it sent arrived here")
}

// TestHeard: what a peer has said about its packets is void when a long one has arrived, or after a while.
func TestHeard(t *testing.T) {
	ds, e := helloPair(t)
	other := ds[1].peers[0]
	is := func() bool {
		ds[1].mu.Lock()
		defer ds[1].mu.Unlock()
		other.checkResponds(time.Now())
		return other.conn.isUnheard(other.d.now(), other.d.settings.timeout)
	}
	ds[1].mu.Lock()
	other.conn.noteStalls(false, true, other.d.now())
	ds[1].mu.Unlock()
	if !is() {
		t.Error("it is void after a short message")
	}
	if err := sendLong(ds[0], e); err != nil {
		t.Fatal(err)
	}
	pollUntilDone(t, "a long message arrives", func() string { return describe(ds[1]) }, func() bool {
		pollOne(t, ds[0])
		return len(pollOne(t, ds[1]).Data) == 100_000
	})
	if is() {
		t.Error("it is not void after a long message")
	}
	ds[1].mu.Lock()
	defer ds[1].mu.Unlock()
	if other.conn.unheard = time.Now().Add(-2 * testTimeout); other.conn.isUnheard(other.d.now(), other.d.settings.timeout) {
		t.Error("it is not void after a while")
	}
}

// TestSlowProgress: while bytes are acknowledged, however slowly, no other connection is tried, and the peer is not lost.
func TestSlowProgress(t *testing.T) {
	ds, e := helloPair(t)
	ds[0].mu.Lock()
	defer ds[0].mu.Unlock()
	now, s := e.conn.flow.Since(), e.stalledSample()
	s.Bytes_acked = 1 << 20
	for range 100 {
		now = now.Add(testTimeout / 10)
		s.Bytes_acked++
		if e.judge(s, e.conn.flow.Observe(s, now, 0), now); e.conn.attempt != nil || e.state != up {
			t.Fatalf("attempt %v, state %v", e.conn.attempt != nil, e.state)
		}
	}
}

// TestStoppedWhileStalled: a peer whose host acknowledges, and accepts another connection, is only stopped if its process does
// not answer. It is not lost, however long that takes.
func TestStoppedWhileStalled(t *testing.T) {
	ds, e := helloPair(t)
	d := ds[0]
	d.mu.Lock()
	defer d.mu.Unlock()
	now, s := e.conn.flow.Since(), e.stalledSample()
	for range 100 {
		now = now.Add(testTimeout / suspectFraction)
		for range 2 {
			if e.judge(s, e.conn.flow.Observe(s, now, 0), now); e.conn.attempt == nil || e.state != up {
				t.Fatalf("attempt %v, state %v", e.conn.attempt != nil, e.state)
			}
			e.conn.attempt.phase, e.conn.attempt.deadline = awaitChallenge, now // the other process does not run, and the attempt ends
		}
		d.checkDeadlines(now.Add(1))
	}
}

// vainFlow returns a flow over two connections. Nothing has arrived since that time.
func vainFlow(since time.Time) (f tcpflow.Flow) {
	s := &tcpflow.Sample{TCPInfo: unix.TCPInfo{State: 1, Bytes_acked: 1 << 40, Bytes_received: 1 << 40}}
	f.Begin(s, since)
	f.Begin(s, since)
	return f
}

// TestConnectionsInVain: connections that end one after the other, before anything has arrived over them, count against the
// timeout from when something has arrived last. They are made less and less often.
func TestConnectionsInVain(t *testing.T) {
	ds, e := helloPair(t)
	ds[0].mu.Lock()
	now := time.Now()
	for _, wait := range []time.Duration{2 * minBackoff, 4 * minBackoff} {
		e.conn.flow = vainFlow(now.Add(-testTimeout / 2))
		if e.reconnect(errClosed); e.state != up || e.conn.attempt != nil || e.conn.backoff != wait {
			t.Errorf("state %v, attempt %v, the next one in %v instead of %v", e.state, e.conn.attempt != nil, e.conn.backoff, wait)
		}
	}
	e.conn.flow = vainFlow(now.Add(-testTimeout))
	e.reconnect(errClosed)
	ds[0].mu.Unlock()
	if err := awaitLost(t, ds)[0]; !errors.Is(err, fabric.ErrPeerDown) ||
		!strings.Contains(err.Error(), "nothing has arrived there for 1h0m0s over 4 connections, the last of which ended: ") {
		t.Error(err)
	}
}

// TestLongPacketsLost: over a network that loses long packets, and passes short ones, both peers are lost after the timeout,
// whether or not long packets have arrived before. With IBRUN_SOAK=1 that is tried ten times, and ten times with encryption.
func TestLongPacketsLost(t *testing.T) {
	t.Parallel()
	for _, encrypt := range soaktest.Choose([]bool{false, true}, []bool{false}) {
		for k := range soaktest.Choose(10, 1) {
			t.Run(fmt.Sprintf("encrypted %v, %d", encrypt, k), func(t *testing.T) {
				t.Parallel()
				tr := patient()
				tr.Encrypt = encrypt
				testLongPacketsLost(t, tr, k%2 == 1)
			})
		}
	}
}

// loseLong makes a namespace lose packets that arrive with more than 1500 bytes. The link carries packets of up to 9000.
func loseLong(name string) error {
	return run("ip netns exec " + name + " nft add table inet hole; add chain inet hole in { type filter hook input " +
		"priority 0; }; add rule inet hole in meta length > 1500 drop")
}

// makeJumbo makes two namespaces whose link carries packets of up to 9000 bytes, and no longer ones that the kernel has joined.
func makeJumbo(t *testing.T) [2]string {
	t.Helper()
	needtest.Program(t, "nft", "nftables")
	names := makeNamespaces(t)
	for _, name := range names {
		if err := run("ip -n " + name + " link set " + name + " mtu 9000 gso_max_segs 1"); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// sendLong sends a message of 100,000 bytes.
func sendLong(d fabric.Domain, e fabric.Endpoint) error {
	for {
		if err := e.Send(make([]byte, 100_000), nil); err != fabric.ErrAgain {
			return err
		}
		if _, err := d.Poll(nil); err != nil {
			return err
		}
	}
}

// pollMeanwhile polls a domain in a goroutine until stop is called.
func pollMeanwhile(d fabric.Domain) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			_, err = d.Poll(nil)
			runtime.Gosched()
		}
		ended <- err
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

func testLongPacketsLost(t *testing.T, tr *Transport, before bool) {
	names := makeJumbo(t)
	var lost sync.WaitGroup // by both peers: one that has closed refuses connections, and the other does not learn why
	lost.Add(2)
	betweenNamespaces(t, names, tr, func(self int, d fabric.Domain, e fabric.Endpoint) error {
		if before {
			err := sendLong(d, e)
			if err == nil {
				_, err = nextEvent(d)
			}
			if err != nil {
				return err
			}
		}
		err := errors.Join(shortenTimeout(d.(*Domain)), loseLong(names[self]), exchangeHello(d, e))
		if err == nil && self == 0 {
			err = sendLong(d, e)
		}
		if err != nil {
			return err
		}
		ev, err := nextEvent(d)
		if err == nil && (ev.Kind != fabric.PeerDown || !strings.Contains(fmt.Sprint(ev.Err), "MTU")) {
			err = fmt.Errorf("peer %d: %+v", self, ev)
		}
		t.Logf("peer %d: %v", self, ev.Err)
		stop := pollMeanwhile(d)
		lost.Done()
		lost.Wait()
		return errors.Join(err, stop())
	})
}

// TestShorterPackets: if the kernel sends shorter packets after long ones were lost, as it does with tcp_mtu_probing, nothing is
// lost, although that takes it seconds.
func TestShorterPackets(t *testing.T) {
	t.Parallel()
	names := makeJumbo(t)
	for _, name := range names {
		if err := run("ip netns exec " + name + " sysctl -qw net.ipv4.tcp_mtu_probing=1"); err != nil {
			t.Fatal(err)
		}
	}
	betweenNamespaces(t, names, patient(), func(self int, d fabric.Domain, e fabric.Endpoint) error {
		err := errors.Join(loseLong(names[self]), exchangeHello(d, e), sendLong(d, e))
		if err != nil {
			return err
		}
		ev, err := nextEvent(d)
		if err == nil && len(ev.Data) != 100_000 {
			err = fmt.Errorf("peer %d: %+v", self, ev)
		}
		return err
	})
}

// TestStalledIsNoSetting: peers of which one says that nothing it sent arrives have the same settings, and each knows which one
// says it.
func TestStalledIsNoSetting(t *testing.T) {
	for _, client := range []bool{true, false} {
		x := transcript{options: optionEncrypt, hello: hello{options: optionEncrypt}}
		if client {
			x.hello.options |= optionStalled
		} else {
			x.options |= optionStalled
		}
		if err := x.optionsError(true); err != nil || !x.encrypted() {
			t.Errorf("the client %v: %v, encrypted %v", client, err, x.encrypted())
		}
		for _, asked := range []bool{true, false} {
			if here, there := x.stalled(asked); here != (asked == client) || there == here {
				t.Errorf("the client %v, asked for the client %v: %v, %v", client, asked, here, there)
			}
		}
	}
}
