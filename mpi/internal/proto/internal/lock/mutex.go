package lock

import (
	"math"
	"sync/atomic"
)

// Mutex is a mutual exclusion lock, see the comment of the package. New returns one.
type Mutex struct {
	state   atomic.Int32  // locked, reserved, and waiter for each goroutine that waits
	freed   chan struct{} // capacity 1: signals that the mutex may be free
	handoff chan struct{} // capacity 1: the same, for the goroutine for which the mutex is reserved
	// await is the function of Control; nil: the channels decide which goroutine gets the mutex. It
	// is set together with the state controlled.
	await func()
}

const (
	locked = 1
	// reserved means that a certain waiting goroutine gets the mutex next. Without it a goroutine
	// that unlocks the mutex and locks it again immediately would hold it for long.
	reserved = 2
	waiter   = 4
	// controlled is the state of a free mutex with await. Neither Lock nor Unlock expects it, so
	// both take their slow paths. It is negative: nobody else waits for the mutex.
	controlled = math.MinInt32
)

// lockSpins is how often a goroutine reads the state before it sleeps. Most holders hold the lock
// for a fraction of a microsecond.
const lockSpins = 100

// New returns a mutex that is free.
func New() Mutex { return Mutex{freed: make(chan struct{}, 1), handoff: make(chan struct{}, 1)} }

// Lock blocks until the caller has the mutex.
func (m *Mutex) Lock() {
	if !m.state.CompareAndSwap(0, locked) {
		m.wait()
	}
}

// Unlock releases the mutex, which must be locked.
func (m *Mutex) Unlock() {
	if state := m.state.Add(-locked); state != 0 {
		m.signal(state)
	}
}

// TryLock locks the mutex if it is free, and reports whether it has. After Control it always does.
func (m *Mutex) TryLock() bool {
	if m.await != nil {
		m.wait()
		return true
	}
	return m.state.CompareAndSwap(0, locked)
}

// Control makes await decide which goroutine gets the mutex, which must be free: Lock calls await,
// which blocks until the caller may have it. Tests that explore schedules call Control.
func (m *Mutex) Control(await func()) {
	m.await = await
	m.state.Store(controlled)
}

// Contended reports to the holder of the lock whether others wait for it.
func (m *Mutex) Contended() bool { return m.state.Load() > locked }

// wait is the slow path of Lock. It is not inlined, and neither is signal, so that the calls of
// Lock and Unlock stay short. A goroutine that finds the mutex locked again after it has slept
// reserves it, unless another has.
//
//go:noinline
func (m *Mutex) wait() {
	if m.await != nil {
		m.await()
		m.state.Add(locked)
		return
	}
	m.state.Add(waiter)
	mine, slept := int32(0), false // mine is reserved if the mutex is reserved for this goroutine
	for i := 0; ; i++ {
		state := m.state.Load()
		switch {
		case state&locked == 0 && state&reserved == mine:
			if m.state.CompareAndSwap(state, state+locked-waiter-mine) {
				return
			}
		case i < lockSpins:
		case mine != 0:
			<-m.handoff
		case slept && state&(locked|reserved) == locked:
			if m.state.CompareAndSwap(state, state+reserved) {
				mine = reserved
			}
		default:
			<-m.freed
			i, slept = 0, true
		}
	}
}

// signal wakes a waiting goroutine, or the one for which the mutex is reserved. If an earlier
// signal has not been received yet, none is needed: its receiver reads the current state.
//
//go:noinline
func (m *Mutex) signal(state int32) {
	if m.await != nil {
		return
	}
	to := m.freed
	if state&reserved != 0 {
		to = m.handoff
	}
	select {
	case to <- struct{}{}:
	default:
	}
}
