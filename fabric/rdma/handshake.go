package rdma

// phase is where the connection to a peer is.
type phase uint8

const (
	phaseIdle     phase = iota // nobody has asked
	phaseAsking                // we asked
	phaseAnswered              // the peer asked and was answered; whether it knows is not known
	phaseUp                    // both know
)

// step is what a greeting leads to.
type step uint8

const (
	stepNone   step = iota
	stepAnswer      // connect to the pairs in the request, and answer. A pair that was made for asking is used for it
	stepRepeat      // answer again: the answer was lost
	stepUp          // connect to the pairs in the answer: the connection stands
)

// handshake decides what greetings lead to. The two sides of a pair have one each. It does no input or output.
type handshake struct {
	self, peer   uint32
	mine, theirs uint64 // incarnations; theirs is 0 until it is known
	phase        phase
	epoch        uint32 // of the connection that stands or is being made; 0: none yet
	own, other   pair   // of that connection; other is set from phaseAnswered on
}

// ask begins to connect under the next epoch, with our pair.
func (h *handshake) ask(own pair) {
	h.phase, h.epoch, h.own, h.other = phaseAsking, h.epoch+1, own, pair{}
}

// hear decides on a greeting that is addressed to this incarnation. Nothing changes but what is known of the peer.
func (h *handshake) hear(g *greeting) step {
	if g.to != h.self || g.from != h.peer || g.theirs != h.mine || g.mine == 0 || h.theirs != 0 && g.mine != h.theirs {
		return stepNone
	}
	h.theirs = g.mine
	newer, same := int32(g.epoch-h.epoch) > 0, g.epoch == h.epoch
	switch {
	case g.kind == saidAnswer:
		if h.phase == phaseAsking && same && g.asked == h.own {
			return stepUp
		}
	case g.kind != saidAsk:
	case newer, same && h.phase == phaseAsking && h.peer < h.self:
		return stepAnswer
	case same && h.phase >= phaseAnswered && g.pairs[0] == h.other:
		return stepRepeat
	}
	return stepNone
}

// answered is called when stepAnswer has been made, with our pair.
func (h *handshake) answered(g *greeting, own pair) {
	h.phase, h.epoch, h.own, h.other = phaseAnswered, g.epoch, own, g.pairs[0]
}

// up is called when stepUp has been made, or the first message has come over the connection.
func (h *handshake) up(other pair) { h.phase, h.other = phaseUp, other }

// broken is called when the connection does not stand any more.
func (h *handshake) broken() { h.phase = phaseIdle }
