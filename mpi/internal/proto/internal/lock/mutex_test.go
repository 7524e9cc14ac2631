package lock

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
)

// TestMutexHandoff: with one processor, a goroutine that unlocks the mutex and locks it again
// immediately holds it whenever another goroutine runs. The others get it nevertheless.
func TestMutexHandoff(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := New()
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
	unlocks := 0
	for ; got.Load() != waiting && unlocks < 1000; unlocks++ {
		runtime.Gosched() // they find it locked
		m.Unlock()
		m.Lock()
	}
	n := got.Load()
	m.Unlock()
	others.Wait()
	if n != waiting {
		t.Errorf("%d of %d got the lock while it was unlocked %d times", n, waiting, unlocks)
	}
	if m.state.Load() != 0 {
		t.Errorf("state %d of an unlocked mutex", m.state.Load())
	}
}

func TestMutexExcludes(t *testing.T) {
	m := New()
	n, each := 0, 5000
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range each {
				m.Lock()
				n++
				if i%2 == 0 && k%64 == 0 {
					runtime.Gosched() // while the others wait for it
				}
				m.Unlock()
			}
		})
	}
	all.Wait()
	if n != 8*each || m.Contended() || m.state.Load() != 0 {
		t.Errorf("%d instead of %d, state %d", n, 8*each, m.state.Load())
	}
}

// TestMutexContended: the holder can ask whether others wait for the lock, until the last of them
// has it.
func TestMutexContended(t *testing.T) {
	const others = 3
	m := New()
	m.Lock()
	if m.Contended() {
		t.Error("contended without other goroutines")
	}
	waiting := make(chan bool)
	for range others {
		go func() {
			m.Lock()
			contended := m.Contended()
			m.Unlock()
			waiting <- contended
		}()
	}
	for m.state.Load()&^reserved != locked+others*waiter {
		runtime.Gosched()
	}
	if !m.Contended() {
		t.Error("others wait, but it is not contended")
	}
	m.Unlock()
	alone := 0
	for range others {
		if !<-waiting {
			alone++
		}
	}
	if alone != 1 {
		t.Errorf("%d of %d held it without contention, want only the last", alone, others)
	}
	if m.state.Load() != 0 {
		t.Errorf("the state of an unlocked mutex is %d", m.state.Load())
	}
}

// TestMutexStaleSignal: an old signal wakes a waiting goroutine, but does not give it the lock.
func TestMutexStaleSignal(t *testing.T) {
	m := New()
	for range 2 {
		m.signal(waiter)
		if len(m.freed) != 1 { // it stays for the next goroutine that waits
			t.Fatalf("%d signals", len(m.freed))
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
	for m.state.Load()&reserved == 0 && !in.Load() { // it has received the signal and reserved the lock
		runtime.Gosched()
	}
	for range 2 { // when it receives the second it has checked after the first
		m.signal(locked | reserved)
		for len(m.handoff) != 0 && !in.Load() {
			runtime.Gosched()
		}
	}
	if in.Load() {
		t.Error("a signal gave the lock to a second goroutine")
	}
	m.Unlock()
	<-done
}

// TestMutexCond uses the mutex as the lock of a condition, like an engine.
func TestMutexCond(t *testing.T) {
	m := New()
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

// TestMutexAllocs: Lock and Unlock allocate nothing.
func TestMutexAllocs(t *testing.T) {
	const runs = 100
	m := New()
	times := 0
	if n := alloctest.Count(runs, func() { m.Lock(); times++; m.Unlock() }); n != 0 || times != alloctest.Calls(runs) {
		t.Errorf("%v allocations, %d times", n, times)
	}
}
