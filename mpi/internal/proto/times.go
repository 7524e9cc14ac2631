package proto

// ClockHandler is told of messages about the time. Its methods are called while the engine makes progress: they must not
// wait, nor call the engine.
type ClockHandler interface {
	// Stamp is the time at which a ping goes or comes.
	Stamp() int64
	// Pong says that a process has answered a ping: when that was sent and came back, by Stamp here, and when it was
	// answered, by Stamp there.
	Pong(peer int, sent, there, back int64)
	// Adjust hands over the words of another process's Steer. It returns false for what no correct one sends.
	Adjust(peer int, w [5]uint64) bool
}

// SendClockPing asks a process for the time, and returns when that was.
func (e *Engine) SendClockPing(peer int) (sent int64, err error) {
	e.lock()
	defer e.unlock()
	if err := e.connect(int32(peer)); err != nil {
		return 0, err
	}
	sent = e.times.Stamp()
	e.note(int32(peer), envelope{kind: kindPing}, uint64(sent))
	return sent, e.broken
}

// SendClockAdjust sends words to the Timekeeper of a process.
func (e *Engine) SendClockAdjust(peer int, w [5]uint64) error {
	e.lock()
	defer e.unlock()
	e.note(int32(peer), envelope{kind: kindSteer}, w[:]...)
	return e.broken
}

// Poll makes progress once.
func (e *Engine) Poll() error {
	e.lock()
	defer e.unlock()
	return e.poke()
}

// timely handles a message about the time.
func (e *Engine) timely(peer int32, k kind, w [5]uint64) bool {
	switch {
	case e.times == nil:
		return false
	case k == kindPing:
		e.note(peer, envelope{kind: kindPong}, w[0], uint64(e.times.Stamp()))
	case k == kindPong:
		e.times.Pong(int(peer), int64(w[0]), int64(w[1]), e.times.Stamp())
	default:
		return e.times.Adjust(int(peer), w)
	}
	return true
}
