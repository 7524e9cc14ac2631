package proto

import "sync/atomic"

// mutex is a mutual exclusion that whoever holds it can ask whether others wait, which sync.Mutex does not tell: a goroutine
// that spins with it lets go then. Taking it while it is free, and giving it back, takes one instruction each and some to see how
// that went.
type mutex struct {
	state atomic.Int32  // held, promised, and waiter for each that waits
	freed chan struct{} // room for one: a hint that it may be free
	turn  chan struct{} // likewise, for the one that it is promised to
}

const (
	held     = 1
	promised = 2 // one of those that wait gets it next: whoever gives it back and takes it again at once would keep it for long
	waiter   = 4
)

// patience is how often the state is looked at before the goroutine sleeps: most hold the lock for a fraction of a microsecond.
const patience = 100

func newMutex() mutex { return mutex{freed: make(chan struct{}, 1), turn: make(chan struct{}, 1)} }

func (m *mutex) Lock() {
	if !m.state.CompareAndSwap(0, held) {
		m.wait()
	}
}

func (m *mutex) Unlock() {
	if state := m.state.Add(-held); state != 0 {
		m.hint(state)
	}
}

// wanted tells whoever holds the lock whether others wait for it.
func (m *mutex) wanted() bool { return m.state.Load() > held }

// wait is what Lock does where it is not free. Not inlined, as hint, so that the calls of Lock and Unlock stay short. Who has
// slept and finds it taken again has it promised, unless another has.
//
//go:noinline
func (m *mutex) wait() {
	m.state.Add(waiter)
	mine, slept := int32(0), false // mine is promised if that is to this goroutine
	for i := 0; ; i++ {
		state := m.state.Load()
		switch {
		case state&held == 0 && state&promised == mine:
			if m.state.CompareAndSwap(state, state+held-waiter-mine) {
				return
			}
		case i < patience:
		case mine != 0:
			<-m.turn
		case slept && state&(held|promised) == held:
			if m.state.CompareAndSwap(state, state+promised) {
				mine = promised
			}
		default:
			<-m.freed
			i, slept = 0, true
		}
	}
}

// hint wakes one of those that wait, or the one whose turn it is. Where the last hint has not been taken yet, whoever takes it
// sees what this one would say.
//
//go:noinline
func (m *mutex) hint(state int32) {
	to := m.freed
	if state&promised != 0 {
		to = m.turn
	}
	select {
	case to <- struct{}{}:
	default:
	}
}
