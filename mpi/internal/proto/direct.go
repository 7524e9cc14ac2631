package proto

// direct is the receive of a goroutine that keeps the lock while it polls, if nothing else waits in its context. It needs no
// request, and no table is searched for it: its message is told by the envelope. If anything else comes first it becomes a
// receive like others.
type direct struct {
	first, second uint64 // the envelope; first is 0 if there is no such receive
	route         Route
	buf           []byte
	length        int      // of the message that came
	r             *Request // what the receive has become
}

// atOnce receives a message that comes within some polls. If it reports false the receive has not begun, or it has become
// e.direct.r.
func (e *Engine) atOnce(from Route, buf []byte) bool {
	if e.breath.Due() {
		e.breathe() // first: the direct receive is one for all goroutines
	}
	d := &e.direct
	d.r = nil
	if e.spin == 0 || from.Rank < 0 || from.Tag < 0 || !e.bare {
		return false
	}
	if t := e.table(from.Context); t == &e.dead || !t.Empty() {
		return false
	}
	d.first, d.second = envelope{kind: kindEager, context: from.Context, Match: from.Match}.words()
	d.route, d.buf = from, buf
	for i := 0; d.first != 0 && i < e.spin && e.moves.head == nil && e.broken == nil && !e.mu.wanted(); i++ {
		e.progress()
	}
	d.buf = nil
	if d.first == 0 {
		return d.r == nil
	}
	d.first = 0
	return false
}

// enlist makes a request of the direct receive, which waits in its table from now on.
func (e *Engine) enlist() {
	d := &e.direct
	d.first = 0
	d.r = e.take()
	d.r.send, d.r.route, d.r.buf = false, d.route, d.buf
	e.receive(d.r)
}
