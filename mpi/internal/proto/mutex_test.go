package proto

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Where there is one processor, a goroutine that gives the lock back and takes it again at once holds it whenever another runs.
func TestMutexIsHandedOver(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := newMutex()
	m.Lock()
	const waiting = 3
	var got atomic.Int32
	var others sync.WaitGroup
	for range waiting {
		others.Go(func() {
			m.Lock()
			got.Add(1)
			m.Unlock()
		})
	}
	turns := 0
	for ; got.Load() != waiting && turns < 1000; turns++ {
		runtime.Gosched() // they find it taken
		m.Unlock()
		m.Lock()
	}
	n := got.Load()
	m.Unlock()
	others.Wait()
	if n != waiting {
		t.Errorf("%d of %d got the lock while it was given back %d times", n, waiting, turns)
	}
	if m.state.Load() != 0 {
		t.Errorf("state %d of a lock that nobody holds", m.state.Load())
	}
}

func TestMutexExcludes(t *testing.T) {
	m := newMutex()
	n, each := 0, 5000
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range each {
				m.Lock()
				n++
				if i%2 == 0 && k%64 == 0 {
					runtime.Gosched() // while the others want it
				}
				m.Unlock()
			}
		})
	}
	all.Wait()
	if n != 8*each || m.contended() || m.state.Load() != 0 {
		t.Errorf("%d instead of %d, state %d", n, 8*each, m.state.Load())
	}
}

// TestMutexWanted: whoever holds the lock knows whether others wait for it, until the last of them has it.
func TestMutexWanted(t *testing.T) {
	const others = 3
	m := newMutex()
	m.Lock()
	if m.contended() {
		t.Error("wanted by nobody")
	}
	waiting := make(chan bool)
	for range others {
		go func() {
			m.Lock()
			wanted := m.contended()
			m.Unlock()
			waiting <- wanted
		}()
	}
	for m.state.Load()&^reserved != locked+others*waiter {
		runtime.Gosched()
	}
	if !m.contended() {
		t.Error("others wait, and it is not wanted")
	}
	m.Unlock()
	alone := 0
	for range others {
		if !<-waiting {
			alone++
		}
	}
	if alone != 1 {
		t.Errorf("%d of %d held it while nobody else wanted it, want the last", alone, others)
	}
	if m.state.Load() != 0 {
		t.Errorf("the state of a free lock is %d", m.state.Load())
	}
}

// TestMutexStaleHint: a hint that was left over wakes who waits, and does not let them in.
func TestMutexStaleHint(t *testing.T) {
	m := newMutex()
	for range 2 {
		m.signal(waiter)
		if len(m.freed) != 1 { // where nobody waits it is kept, for who is about to
			t.Fatalf("%d hints", len(m.freed))
		}
	}
	m.Lock()
	var in atomic.Bool
	done := make(chan struct{})
	go func() {
		m.Lock()
		in.Store(true)
		m.Unlock()
		close(done)
	}()
	for m.state.Load()&reserved == 0 && !in.Load() { // it has taken the hint, and has the lock reserved
		runtime.Gosched()
	}
	for range 2 { // who takes the second has looked after the first
		m.signal(locked | reserved)
		for len(m.handoff) != 0 && !in.Load() {
			runtime.Gosched()
		}
	}
	if in.Load() {
		t.Error("let in by a hint")
	}
	m.Unlock()
	<-done
}

// TestMutexCond: it is the lock of a condition, as in an engine.
func TestMutexCond(t *testing.T) {
	m := newMutex()
	c := sync.Cond{L: &m}
	turn := 0
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for n := i; n < 300; n += 3 {
				c.L.Lock()
				for turn != n {
					c.Wait()
				}
				turn++
				c.Broadcast()
				c.L.Unlock()
			}
		})
	}
	all.Wait()
	if turn != 300 || m.state.Load() != 0 {
		t.Errorf("turn %d, state %d", turn, m.state.Load())
	}
}

// TestMutexAllocs: taking it allocates nothing.
func TestMutexAllocs(t *testing.T) {
	m := newMutex()
	times := 0
	if n := testing.AllocsPerRun(100, func() { m.Lock(); times++; m.Unlock() }); n != 0 || times < 100 {
		t.Errorf("%v allocations, %d times", n, times)
	}
}
