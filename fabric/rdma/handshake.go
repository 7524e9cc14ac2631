package rdma

// connState is the state of the connection to a peer. The names are those of the InfiniBand communication manager.
type connState uint8

const (
	stateIdle        connState = iota // neither side has sent a REQ
	stateREQSent                      // this side has sent a REQ
	stateREPSent                      // the peer has sent a REQ and was sent a REP; it is not known whether the REP has arrived
	stateEstablished                  // both sides are connected
)

// action is what a datagram requires.
type action uint8

const (
	actionNone      action = iota
	actionAccept           // connect to the queue pairs of the REQ and send a REP; use those of a REQ of our own, if any
	actionRepeatREP        // send the REP again: it was lost
	actionEstablish        // connect to the queue pairs of the REP: the connection is established
)

// handshake is one side of the state machine that connects two peers. It does no input or output.
type handshake struct {
	self, peer                       uint32
	selfIncarnation, peerIncarnation uint64 // peerIncarnation is 0 until it is known
	state                            connState
	epoch                            uint32 // of the connection that is established or being made; 0 before the first
	selfQP, peerQP                   qpInfo // first queue pairs of that connection; peerQP is valid from stateREPSent on
}

// request begins a connection under the next epoch, with our queue pair.
func (h *handshake) request(qp qpInfo) {
	h.state, h.epoch, h.selfQP, h.peerQP = stateREQSent, h.epoch+1, qp, qpInfo{}
}

// receive returns the action for a datagram, actionNone if it is not from the peer's current incarnation to this one. If both
// sides have sent a REQ, the REQ of the peer with the lower number counts. receive changes nothing but the peer's incarnation.
func (h *handshake) receive(m *cmMessage) action {
	if m.to != h.self || m.from != h.peer || m.toIncarnation != h.selfIncarnation || m.fromIncarnation == 0 ||
		h.peerIncarnation != 0 && m.fromIncarnation != h.peerIncarnation {
		return actionNone
	}
	h.peerIncarnation = m.fromIncarnation
	newer, same := int32(m.epoch-h.epoch) > 0, m.epoch == h.epoch
	switch {
	case m.kind == cmREP:
		if h.state == stateREQSent && same && m.reqQP == h.selfQP {
			return actionEstablish
		}
	case m.kind != cmREQ:
	case newer, same && h.state == stateREQSent && h.peer < h.self:
		return actionAccept
	case same && h.state >= stateREPSent && m.qps[0] == h.peerQP:
		return actionRepeatREP
	}
	return actionNone
}

// accepted must be called once actionAccept has been carried out, with our queue pair.
func (h *handshake) accepted(m *cmMessage, qp qpInfo) {
	h.state, h.epoch, h.selfQP, h.peerQP = stateREPSent, m.epoch, qp, m.qps[0]
}

// established must be called once actionEstablish has been carried out, or when the first message has arrived over the
// connection.
func (h *handshake) established(qp qpInfo) { h.state, h.peerQP = stateEstablished, qp }

// reset must be called when the connection was closed.
func (h *handshake) reset() { h.state = stateIdle }
