package proto

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/perf"
)

// awaitSleepers waits until n goroutines of an engine sleep: one on the transport, and the others
// are parked.
func awaitSleepers(e *Engine, n int) { awaitSleepersBefore(new(atomic.Bool), e, n) }

// awaitSleepersBefore is awaitSleepers until ended is set. It reports whether they sleep.
func awaitSleepersBefore(ended *atomic.Bool, e *Engine, n int) bool {
	for !ended.Load() {
		if !e.mu.TryLock() { // a goroutine that waits for the lock would keep them from sleeping
			runtime.Gosched()
			continue
		}
		k := e.waiters.parked.len
		if e.waiters.sleeping {
			k++
		}
		e.mu.Unlock()
		if k == n {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// TestSleepAtOnce: a process that is oversubscribed does not yield before it sleeps while
// SleepAtOnce is set, and does otherwise.
func TestSleepAtOnce(t *testing.T) {
	es := open(t, 2, nil, nil)
	for _, on := range []bool{true, false, true} {
		es[0].SleepAtOnce(on)
		received := make(chan error, 1)
		before := es[0].waiters.yields
		go func() {
			_, err := es[0].Recv(from(1, 1), nil)
			received <- err
		}()
		awaitSleepers(es[0], 1)
		if err := es[1].Send(to(1, 0, 1), nil, Standard); err != nil {
			t.Fatal(err)
		}
		if err := <-received; err != nil {
			t.Fatal(err)
		}
		if yields := es[0].waiters.yields - before; on && yields != 0 || !on && yields == 0 {
			t.Errorf("SleepAtOnce(%v): it has yielded %d times", on, yields)
		}
	}
}

// TestPoll: a rank that is to poll for no time does not yield before it sleeps. One that is to poll
// for long does not sleep, also after more yields than otherwise.
func TestPoll(t *testing.T) {
	for _, poll := range []time.Duration{0, time.Hour} {
		es := open(t, 2, nil, nil)
		e := es[0]
		e.waiters.poll = &poll
		received := make(chan error, 1)
		go func() {
			_, err := e.Recv(from(1, 1), nil)
			received <- err
		}()
		if poll == 0 {
			awaitSleepers(e, 1)
		}
		for yields := 0; poll > 0 && yields < 4*yieldsBeforeSleep; runtime.Gosched() {
			e.lock()
			if yields = e.waiters.yields; e.waiters.sleeping {
				t.Errorf("sleeps after %d yields", yields)
				yields = 4 * yieldsBeforeSleep
			}
			e.unlock()
		}
		if err := es[1].Send(to(1, 0, 1), nil, Standard); err != nil {
			t.Fatal(err)
		}
		if err := <-received; err != nil {
			t.Fatal(err)
		}
		if poll == 0 && e.waiters.yields != 0 {
			t.Errorf("it has yielded %d times", e.waiters.yields)
		}
	}
}

// TestEachGoalWakes: goroutines wait for different goals, so that all but one are parked. The goals
// are reached one by one, in different orders, and each time the right goroutine wakes.
func TestEachGoalWakes(t *testing.T) {
	for first := range 5 {
		es := open(t, 2, nil, nil)
		e, other := es[0], es[1]
		var word, asleep uint64
		must := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		must(e.AttachedBuffer().Attach(make([]byte, 1<<16)))
		must(e.Send(to(0, 1, 9), make([]byte, 20000), Buffered))
		waits := []func() error{
			func() error { _, err := e.Recv(from(1, 1), nil); return err },
			func() error { _, err := e.Recv(from(1, 2), make([]byte, 20000)); return err },
			func() error { _, _, err := e.Probes().Probe(context.Background(), from(1, 3), true); return err },
			func() error { return e.Segments().WaitAtLeast(Route{Op: perf.Barrier}, 0, &word, 1, &asleep) },
			func() error { _, err := e.AttachedBuffer().Detach(); return err },
		}
		reach := []func(){
			func() { must(other.Send(to(1, 0, 1), nil, Standard)) },
			func() { must(other.Send(to(1, 0, 2), make([]byte, 20000), Standard)) },
			func() { must(other.Send(to(1, 0, 3), nil, Standard)) },
			func() {
				for atomic.LoadUint64(&asleep) == 0 { // a sleeping goroutine is counted, but one that polls may just have woken it
					runtime.Gosched()
				}
				atomic.StoreUint64(&word, 1)
				other.Segments().Wake(0)
			},
			func() { _, err := other.Recv(from(0, 9), make([]byte, 20000)); must(err) },
		}
		ended := make([]chan error, len(waits))
		for i := range waits {
			i = (i + first) % len(waits) // another goroutine sleeps on the transport
			ended[i] = make(chan error, 1)
			go func() { ended[i] <- waits[i]() }()
			if i == first {
				awaitSleepers(e, 1)
			}
		}
		for k := range waits {
			i := (k*2 + first) % len(waits)
			awaitSleepers(e, len(waits)-k)
			reach[i]()
			must(<-ended[i])
		}
		if n := atomic.LoadUint64(&asleep); n != 0 {
			t.Errorf("%d are counted as sleeping", n)
		}
	}
}

// TestFailureWakesAll: the loss of a process ends every kind of wait.
func TestFailureWakesAll(t *testing.T) {
	es := open(t, 2, nil, nil)
	e := es[0]
	var word, asleep uint64
	var ended [4]chan error
	h, err := e.Isend(to(0, 1, 1), make([]byte, 20000), Standard)
	if err != nil {
		t.Fatal(err)
	}
	for i, wait := range []func() error{
		func() error { _, err := e.Recv(from(1, 1), nil); return err },
		func() error { _, _, err := e.Probes().Probe(context.Background(), from(1, 3), true); return err },
		func() error { return e.Segments().WaitAtLeast(Route{Op: perf.Barrier}, 0, &word, 1, &asleep) },
		func() error {
			_, _, err := e.Requests().WaitAny(context.Background(), perf.Waitany, []Handle{{}, h})
			return err
		},
	} {
		ended[i] = make(chan error, 1)
		go func() { ended[i] <- wait() }()
	}
	awaitSleepers(e, len(ended))
	if err := es[1].Close(); err != nil {
		t.Fatal(err)
	}
	for i, c := range ended {
		if err := <-c; !errors.Is(err, ErrFailed) || !errors.Is(err, fabric.ErrPeerDown) {
			t.Errorf("wait %d: %v", i, err)
		}
	}
	if err := e.Send(to(0, 1, 1), nil, Standard); !errors.Is(err, ErrFailed) {
		t.Errorf("send afterwards: %v", err)
	}
	if err := e.FlushSends(); err != nil && !errors.Is(err, ErrFailed) {
		t.Error(err)
	}
}

// TestSendReportsLoss: a send to a process that has exited returns an error, also if it is the
// first to notice.
func TestSendReportsLoss(t *testing.T) {
	for _, connected := range []bool{false, true} {
		es := open(t, 2, nil, nil)
		if connected {
			if err := es[0].Send(to(0, 1, 1), nil, Standard); err != nil {
				t.Fatal(err)
			}
		}
		if err := es[1].Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		for range 3 { // the ring accepts some before the loss is known
			if err = es[0].Send(to(0, 1, 1), make([]byte, 100), Standard); err == nil {
				es[0].lock()
				err = es[0].poller.pollOnce()
				es[0].unlock()
			}
		}
		if !errors.Is(err, ErrFailed) {
			t.Errorf("connected %v: %v", connected, err)
		}
	}
}

// TestFlushAfterClose: FlushSends does not wait for messages to a process that has finalized.
func TestFlushAfterClose(t *testing.T) {
	es := open(t, 2, nil, nil)
	es[0].Processes().AllowFinalize()
	es[1].Processes().AllowFinalize()
	var hs []Handle
	for range 40 {
		h, err := es[0].Isend(to(0, 1, 1), make([]byte, 4000), Standard)
		if err != nil {
			t.Fatal(err)
		}
		hs = append(hs, h)
	}
	if err := es[1].Close(); err != nil {
		t.Fatal(err)
	}
	if err := es[0].FlushSends(); err != nil {
		t.Fatal(err)
	}
	_, err := es[0].Requests().Wait(hs[len(hs)-1])
	if !errors.Is(err, fabric.ErrPeerClosed) {
		t.Errorf("the last send: %v", err)
	}
}

// TestDataToClosed: a send whose data are requested by a process that then finalizes ends with an
// error.
func TestDataToClosed(t *testing.T) {
	es := open(t, 2, variant{noRead: true}.wrap, nil)
	a, b := es[0], es[1]
	a.Processes().AllowFinalize()
	b.Irecv(from(0, 1), make([]byte, 100000))
	h, err := a.Isend(to(0, 1, 1), make([]byte, 100000), Standard)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.lockedPollOnce(), b.Close(), a.lockedPollOnce()); err != nil {
		t.Fatal(err)
	}
	if !a.Completed(h) {
		t.Fatal("the send never completes")
	}
	if _, err := a.Requests().Wait(h); !errors.Is(err, fabric.ErrPeerClosed) {
		t.Error(err)
	}
}

// armObserver sets armed while the domain is armed, and calls then when it is armed.
type armObserver struct {
	fabric.Domain
	armed *bool
	then  func()
}

func (d armObserver) Arm() (int, bool, error) {
	*d.armed = true
	d.then()
	return d.Domain.Arm()
}

func (d armObserver) Poll(evs []fabric.Event) (int, error) {
	*d.armed = false
	return d.Domain.Poll(evs)
}

// TestDisarmedAfterWord: a goroutine that has slept, or was about to sleep, until a word changed
// does not leave the transport armed, since an armed transport does not expect to be polled.
func TestDisarmedAfterWord(t *testing.T) {
	for _, slept := range []bool{false, true} {
		var word, sleeping uint64
		armed, then := false, func() {}
		es := open(t, 1, func(tr fabric.Transport) fabric.Transport {
			return hooked{tr, func(d fabric.Domain) fabric.Domain { return armObserver{d, &armed, func() { then() }} }}
		}, nil)
		e := es[0]
		change := func() { atomic.StoreUint64(&word, 1) }
		if then = change; slept {
			then = func() {
				then = func() {} // WaitAtLeast sleeps again and again until the goroutine below has found it asleep
				go func() {
					awaitSleepers(e, 1)
					change()
					e.waiters.parker.Wake()
				}()
			}
		}
		if err := e.Segments().WaitAtLeast(Route{}, 0, &word, 1, &sleeping); err != nil {
			t.Fatal(err)
		}
		if armed {
			t.Errorf("slept: %v; the transport is still armed", slept)
		}
	}
}

// pollCounter counts the polls of a domain, and calls armed with their number when it is armed.
type pollCounter struct {
	fabric.Domain
	polls *int
	armed func(polls int)
}

func (d pollCounter) Arm() (int, bool, error) {
	d.armed(*d.polls)
	return d.Domain.Arm()
}

func (d pollCounter) Poll(evs []fabric.Event) (int, error) {
	*d.polls++
	return d.Domain.Poll(evs)
}

// TestWokenInVain: a goroutine that is woken although nothing has happened, as by a transport that
// looks at its deadlines, polls less before it sleeps again.
func TestWokenInVain(t *testing.T) {
	polls, at, armed := 0, []int(nil), func(int) {}
	es := open(t, 1, func(tr fabric.Transport) fabric.Transport {
		return hooked{tr, func(d fabric.Domain) fabric.Domain { return pollCounter{d, &polls, func(n int) { armed(n) }} }}
	}, nil)
	e, begin := es[0], polls
	var received atomic.Bool
	var wakers sync.WaitGroup
	armed = func(n int) {
		if at = append(at, n); len(at) > 4 {
			return // a goroutine of this test came so late that the receive has looked at its deadlines meanwhile
		}
		last := len(at) == 4
		wakers.Go(func() {
			if !awaitSleepersBefore(&received, e, 1) {
				return
			}
			if last {
				if err := e.Send(to(0, 0, 1), nil, Standard); err != nil {
					t.Error(err)
				}
			}
			e.waiters.parker.Wake()
		})
	}
	_, err := e.Recv(from(0, 1), nil)
	received.Store(true)
	wakers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(at); i++ {
		if again := at[i] - at[i-1]; again == 0 || again > (at[0]-begin)/4 {
			t.Errorf("it slept after %d polls, and was woken in vain after %v of all polls", at[0]-begin, at)
		}
	}
}

// brokenDomain is a domain whose Poll fails once broken is set.
type brokenDomain struct {
	fabric.Domain
	broken *atomic.Bool
}

var errDomain = errors.New("no memory for descriptors")

func (d brokenDomain) Poll(evs []fabric.Event) (int, error) {
	if d.broken.Load() {
		return 0, errDomain
	}
	return d.Domain.Poll(evs)
}

// TestDomainFails: if the transport fails as a whole, the error names no peer.
func TestDomainFails(t *testing.T) {
	var broken atomic.Bool
	es := open(t, 1, func(tr fabric.Transport) fabric.Transport {
		return hooked{tr, func(d fabric.Domain) fabric.Domain { return brokenDomain{d, &broken} }}
	}, nil)
	broken.Store(true)
	_, err := es[0].Recv(from(0, 1), nil)
	if !errors.Is(err, errDomain) || !errors.Is(err, ErrFailed) || strings.Contains(err.Error(), "process -1") {
		t.Error(err)
	}
}

// armed is a domain that has been armed with this descriptor.
type armed struct {
	fabric.Domain
	fd int
}

func (d armed) Arm() (int, bool, error) { return d.fd, false, nil }

// TestInProcess: ranks yield to goroutines if their peers are goroutines of their process, which a
// domain without a descriptor says, and to other processes otherwise.
func TestInProcess(t *testing.T) {
	if e := open(t, 2, nil, nil)[0]; !e.waiters.inProcess {
		t.Error("peers in memory are taken for processes")
	}
	for fd, want := range map[int]bool{-1: true, 0: false} {
		var w waiters
		if err := w.open(armed{fd: fd}, NewWaker()); err != nil {
			t.Fatal(err)
		}
		if w.inProcess != want {
			t.Errorf("descriptor %d: the peers are goroutines: %v", fd, w.inProcess)
		}
		if err := w.parker.Close(); err != nil {
			t.Error(err)
		}
	}
}
