package proto

// ClockHandler handles clock messages. Its methods are called while the engine makes progress: they must not wait, nor call the
// engine.
type ClockHandler interface {
	// Stamp returns the time at which a ping is sent or received.
	Stamp() int64
	// Pong handles the answer to a ping. The ping was sent at sent and the answer arrived at back, by Stamp in this process; it
	// was answered at there, by Stamp in the peer.
	Pong(peer int, sent, there, back int64)
	// Adjust handles the words of another process's SendClockAdjust. It returns false for words that no correct process sends.
	Adjust(peer int, w [5]uint64) bool
}

// SendClockPing asks a process for its time. It returns the time at which the ping was sent.
func (e *Engine) SendClockPing(peer int) (sent int64, err error) {
	e.lock()
	defer e.unlock()
	if err := e.connect(int32(peer)); err != nil {
		return 0, err
	}
	sent = e.clock.Stamp()
	e.sendControl(int32(peer), envelope{kind: kindClockPing}, uint64(sent))
	return sent, e.failure.err
}

// SendClockAdjust sends words to the ClockHandler of a process.
func (e *Engine) SendClockAdjust(peer int, w [5]uint64) error {
	e.lock()
	defer e.unlock()
	e.sendControl(int32(peer), envelope{kind: kindClockAdjust}, w[:]...)
	return e.failure.err
}

// handleClock handles the three kinds of clock messages.
func (e *Engine) handleClock(peer int32, k kind, w [5]uint64) bool {
	switch {
	case e.clock == nil:
		return false
	case k == kindClockPing:
		e.sendControl(peer, envelope{kind: kindClockPong}, w[0], uint64(e.clock.Stamp()))
	case k == kindClockPong:
		e.clock.Pong(int(peer), int64(w[0]), int64(w[1]), e.clock.Stamp())
	default:
		return e.clock.Adjust(int(peer), w)
	}
	return true
}
