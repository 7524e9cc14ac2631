package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

const (
	initialWindow  = 1 // data messages that a peer may send at first
	minGrownWindow = 4 // the window after the first growth: enough for credits to travel with answers
)

// inbound is the receiver's side of the flow control of one peer: what has arrived, and what the peer may send. Numbers count
// data messages and wrap around. In addition, one control message may be in flight, see controlUnacked.
type inbound struct {
	received     uint32 // data messages that have arrived, which is the number of the next
	freed        uint32 // data messages whose slots are posted again
	window       uint32 // slots that are reserved for data messages of this peer
	granted      uint32 // the grant that was sent to the peer last
	controlGrant uint32 // the grant in the last control message
	// controlUnacked: it is not known whether the peer has received the last control message, so another might find no slot
	// posted.
	controlUnacked bool
	needsCredits   bool // the peer has used all credits that it knew of
}

// grant returns the current grant: the peer may send data messages with lower numbers.
func (in *inbound) grant() uint32 { return in.freed + in.window }

// receive updates the account for a message that has arrived.
func (in *inbound) receive(h *header) error {
	if h.seq != in.received {
		return fmt.Errorf("%w: message %d arrived in place of message %d", fabric.ErrCorrupt, h.seq, in.received)
	}
	if in.controlUnacked && int32(h.grantSeen-in.controlGrant) >= 0 {
		in.controlUnacked = false
	}
	if h.kind != kindData {
		return nil
	}
	if in.received == in.granted {
		return fmt.Errorf("%w: message %d arrived without a credit", fabric.ErrCorrupt, h.seq)
	}
	in.received++
	in.needsCredits = h.needsCredits
	return nil
}

// creditDue reports whether to send a credit update even if no other message is sent to the peer: before the peer has to wait
// for it, or when it may be waiting.
func (in *inbound) creditDue() bool {
	fresh := in.grant() - in.granted
	if in.controlUnacked || fresh == 0 {
		return false
	}
	return fresh >= (in.window+1)/2 || in.needsCredits && in.received == in.freed
}

// nextWindow returns the window for a peer that needs credits, which is at most limit.
func (in *inbound) nextWindow(limit uint32) uint32 {
	return min(max(2*in.window, minGrownWindow), max(limit, in.window))
}

// outbound is the sender's side.
type outbound struct {
	sent  uint32 // data messages sent, which is the number of the next
	grant uint32 // only messages with lower numbers may be sent
}

// hasCredit reports whether a data message may be sent.
func (o *outbound) hasCredit() bool { return int32(o.grant-o.sent) > 0 }

// maxGrantAhead is more than any correct peer grants in advance.
const maxGrantAhead = 1 << 20

// receiveGrant applies a grant of the peer. An older one that arrives late changes nothing.
func (o *outbound) receiveGrant(grant uint32) error {
	if int32(grant-o.grant) <= 0 {
		return nil
	}
	return o.raiseGrant(grant)
}

// raiseGrant is the part of receiveGrant that is rarely needed. On its own, it lets receiveGrant be inlined.
func (o *outbound) raiseGrant(grant uint32) error {
	if grant-o.sent > maxGrantAhead {
		return fmt.Errorf("%w: a grant of %d when %d messages were sent", fabric.ErrCorrupt, grant, o.sent)
	}
	o.grant = grant
	return nil
}
