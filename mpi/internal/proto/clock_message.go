package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// ClockHandler handles clock messages. Its methods are called while the engine makes progress: they
// must not wait, nor call the engine.
type ClockHandler interface {
	// Stamp returns the time at which a ping is sent or received.
	Stamp() int64
	// Ping handles the words of another process's Clock.SendPing, and returns the word for the
	// answer.
	Ping(peer int, bound, roundTrip uint64) (answer uint64)
	// Pong handles the answer to a ping. The ping was sent at sent and the answer arrived at back,
	// by Stamp in this process; it was answered at there, by Stamp in the peer. answer is the word
	// that the peer's Ping returned.
	Pong(peer int, sent, there, back int64, answer uint64)
	// Adjust handles the words of another process's Clock.SendAdjust. It returns false for words
	// that no correct process sends.
	Adjust(peer int, w [5]uint64) bool
	// State handles the word of another process's Clock.SendState. It returns false if no correct
	// process sends it.
	State(peer int, w uint64) bool
}

// Clock passes messages between the ClockHandlers of processes.
type Clock struct {
	mu      *lock.Mutex // of the engine
	links   *links
	handler ClockHandler // nil: there is no common clock
}

// Clock returns what sends clock messages.
func (e *Engine) Clock() *Clock { return &e.clock }

// SendPing asks a process for its time, and passes two words to its ClockHandler. It returns the
// time at which the ping was sent.
func (c *Clock) SendPing(peer int, bound, roundTrip uint64) (sent int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.links.connect(int32(peer)); err != nil {
		return 0, err
	}
	sent = c.handler.Stamp()
	c.links.sendControl(int32(peer), wire.Envelope{Kind: wire.ClockPing}, uint64(sent), bound, roundTrip)
	return sent, c.links.failure.err
}

// SendAdjust sends words to the ClockHandler of a process.
func (c *Clock) SendAdjust(peer int, w [5]uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.links.sendControl(int32(peer), wire.Envelope{Kind: wire.ClockAdjust}, w[:]...)
	return c.links.failure.err
}

// SendState sends a word to the ClockHandler of a process.
func (c *Clock) SendState(peer int, w uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.links.connect(int32(peer)); err != nil {
		return err
	}
	c.links.sendControl(int32(peer), wire.Envelope{Kind: wire.ClockState}, w)
	return c.links.failure.err
}

// handle handles the four kinds of clock messages.
func (c *Clock) handle(peer int32, k wire.Kind, w [5]uint64) bool {
	switch {
	case c.handler == nil:
		return false
	case k == wire.ClockPing:
		there := c.handler.Stamp()
		c.links.sendControl(peer, wire.Envelope{Kind: wire.ClockPong}, w[0], uint64(there), c.handler.Ping(int(peer), w[1], w[2]))
	case k == wire.ClockPong:
		c.handler.Pong(int(peer), int64(w[0]), int64(w[1]), c.handler.Stamp(), w[2])
	case k == wire.ClockState:
		return c.handler.State(int(peer), w[0])
	default:
		return c.handler.Adjust(int(peer), w)
	}
	return true
}
