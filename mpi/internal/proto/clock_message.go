package proto

import "github.com/ibrun/ibrun/mpi/internal/wire"

// ClockHandler handles clock messages. Its methods are called while the engine makes progress: they must not wait, nor call the
// engine.
type ClockHandler interface {
	// Stamp returns the time at which a ping is sent or received.
	Stamp() int64
	// Ping handles the words of another process's SendClockPing, and returns the word for the answer.
	Ping(peer int, bound, roundTrip uint64) (answer uint64)
	// Pong handles the answer to a ping. The ping was sent at sent and the answer arrived at back, by Stamp in this process; it
	// was answered at there, by Stamp in the peer. answer is the word that the peer's Ping returned.
	Pong(peer int, sent, there, back int64, answer uint64)
	// Adjust handles the words of another process's SendClockAdjust. It returns false for words that no correct process sends.
	Adjust(peer int, w [5]uint64) bool
	// State handles the word of another process's SendClockState. It returns false if no correct process sends it.
	State(peer int, w uint64) bool
}

// SendClockPing asks a process for its time, and passes two words to its ClockHandler. It returns the time at which the ping was
// sent.
func (e *Engine) SendClockPing(peer int, bound, roundTrip uint64) (sent int64, err error) {
	e.lock()
	defer e.unlock()
	if err := e.links.connect(int32(peer)); err != nil {
		return 0, err
	}
	sent = e.clock.Stamp()
	e.links.sendControl(int32(peer), wire.Envelope{Kind: wire.ClockPing}, uint64(sent), bound, roundTrip)
	return sent, e.failure.err
}

// SendClockAdjust sends words to the ClockHandler of a process.
func (e *Engine) SendClockAdjust(peer int, w [5]uint64) error {
	e.lock()
	defer e.unlock()
	e.links.sendControl(int32(peer), wire.Envelope{Kind: wire.ClockAdjust}, w[:]...)
	return e.failure.err
}

// SendClockState sends a word to the ClockHandler of a process.
func (e *Engine) SendClockState(peer int, w uint64) error {
	e.lock()
	defer e.unlock()
	if err := e.links.connect(int32(peer)); err != nil {
		return err
	}
	e.links.sendControl(int32(peer), wire.Envelope{Kind: wire.ClockState}, w)
	return e.failure.err
}

// handleClock handles the four kinds of clock messages.
func (e *Engine) handleClock(peer int32, k wire.Kind, w [5]uint64) bool {
	switch {
	case e.clock == nil:
		return false
	case k == wire.ClockPing:
		there := e.clock.Stamp()
		e.links.sendControl(peer, wire.Envelope{Kind: wire.ClockPong}, w[0], uint64(there), e.clock.Ping(int(peer), w[1], w[2]))
	case k == wire.ClockPong:
		e.clock.Pong(int(peer), int64(w[0]), int64(w[1]), e.clock.Stamp(), w[2])
	case k == wire.ClockState:
		return e.clock.State(int(peer), w[0])
	default:
		return e.clock.Adjust(int(peer), w)
	}
	return true
}
