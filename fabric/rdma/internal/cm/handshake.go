package cm

// State is the state of the connection to a peer. The names are those of the InfiniBand
// communication manager.
type State uint8

// The states of a connection, in this order: code compares them.
const (
	StateIdle    State = iota // neither side has sent a REQ
	StateREQSent              // this side has sent a REQ
	// StateREPSent: the peer has sent a REQ and was sent a REP. It is not known whether the REP has
	// arrived.
	StateREPSent
	StateEstablished // both sides are connected
)

// Action is what a datagram requires.
type Action uint8

// What a datagram may require.
const (
	actionNone Action = iota
	// ActionAccept: connect to the queue pairs of the REQ, and send a REP. The queue pairs of a REQ
	// of our own are used, if there was one.
	ActionAccept
	ActionRepeatREP // send the REP again: it was lost
	ActionEstablish // connect to the queue pairs of the REP: the connection is established
)

// Handshake is one side of the state machine that connects two peers. It does no input or output.
type Handshake struct {
	Self, Peer                       uint32
	SelfIncarnation, PeerIncarnation uint64 // PeerIncarnation is 0 until it is known
	State                            State
	// Epoch is that of the connection that is established or being made, 0 before the first.
	Epoch uint32
	// SelfQP and PeerQP are the first queue pairs of that connection. PeerQP is valid from
	// StateREPSent on.
	SelfQP, PeerQP QP
}

// Request begins a connection under the next epoch, with our queue pair.
func (h *Handshake) Request(qp QP) {
	h.State, h.Epoch, h.SelfQP, h.PeerQP = StateREQSent, h.Epoch+1, qp, QP{}
}

// Receive returns the action for a datagram, actionNone if it is not from the peer's current
// incarnation to this one. If both sides have sent a REQ, the REQ of the peer with the lower number
// counts. Receive changes nothing but the peer's incarnation.
func (h *Handshake) Receive(m *Message) Action {
	if m.To != h.Self || m.From != h.Peer || m.ToIncarnation != h.SelfIncarnation || m.FromIncarnation == 0 ||
		h.PeerIncarnation != 0 && m.FromIncarnation != h.PeerIncarnation {
		return actionNone
	}
	h.PeerIncarnation = m.FromIncarnation
	newer, same := int32(m.Epoch-h.Epoch) > 0, m.Epoch == h.Epoch
	switch {
	case m.Kind == REP:
		if h.State == StateREQSent && same && m.ReqQP == h.SelfQP {
			return ActionEstablish
		}
	case m.Kind != REQ:
	case newer, same && h.State == StateREQSent && h.Peer < h.Self:
		return ActionAccept
	case same && h.State >= StateREPSent && m.Pairs[0] == h.PeerQP:
		return ActionRepeatREP
	}
	return actionNone
}

// Accepted must be called once ActionAccept has been carried out, with our queue pair.
func (h *Handshake) Accepted(m *Message, qp QP) {
	h.State, h.Epoch, h.SelfQP, h.PeerQP = StateREPSent, m.Epoch, qp, m.Pairs[0]
}

// Established must be called once ActionEstablish has been carried out, or when the first message
// has arrived over the connection.
func (h *Handshake) Established(qp QP) { h.State, h.PeerQP = StateEstablished, qp }

// Reset must be called when the connection was closed.
func (h *Handshake) Reset() { h.State = StateIdle }
