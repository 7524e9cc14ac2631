package messages

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// A peer may send InitialWindow data messages at first. After the first growth the window is at
// least MinGrownWindow, which is enough for credits to travel with answers.
const (
	InitialWindow  = 1
	MinGrownWindow = 4
)

// Inbound is the receiver's side of the flow control of one peer: what has arrived, and what the
// peer may send. Numbers count data messages and wrap around. In addition, one control message may
// be in flight, see ControlUnacked.
type Inbound struct {
	Received     uint32 // data messages that have arrived, which is the number of the next
	Freed        uint32 // data messages whose slots are posted again
	Window       uint32 // slots that are reserved for data messages of this peer
	Granted      uint32 // the grant that was sent to the peer last
	ControlGrant uint32 // the grant in the last control message
	// ControlUnacked: it is not known whether the peer has received the last control message, so
	// another might find no slot posted.
	ControlUnacked bool
	needsCredits   bool // the peer has used all credits that it knew of
	Discarding     bool // the peer was closed here: no more messages are delivered
}

// Grant returns the current grant: the peer may send data messages with lower numbers.
func (in *Inbound) Grant() uint32 { return in.Freed + in.Window }

// Receive updates the account for a message that has arrived.
func (in *Inbound) Receive(h *Header) error {
	if h.Seq != in.Received {
		return fmt.Errorf("%w: message %d arrived in place of message %d", fabric.ErrCorrupt, h.Seq, in.Received)
	}
	if in.ControlUnacked && int32(h.GrantSeen-in.ControlGrant) >= 0 {
		in.ControlUnacked = false
	}
	if h.Kind != Data {
		return nil
	}
	if in.Received == in.Granted {
		return fmt.Errorf("%w: message %d arrived without a credit", fabric.ErrCorrupt, h.Seq)
	}
	in.Received++
	in.needsCredits = h.NeedsCredits
	return nil
}

// CreditDue reports whether to send a credit update even if no other message is sent to the peer:
// before the peer has to wait for it, or when it may be waiting.
func (in *Inbound) CreditDue() bool {
	fresh := in.Grant() - in.Granted
	if in.ControlUnacked || fresh == 0 {
		return false
	}
	return fresh >= (in.Window+1)/2 || in.needsCredits && in.Received == in.Freed
}

// NextWindow returns the window for a peer that needs credits, which is at most limit.
func (in *Inbound) NextWindow(limit uint32) uint32 {
	return min(max(2*in.Window, MinGrownWindow), max(limit, in.Window))
}

// Outbound is the sender's side. Numbers count data messages and wrap around.
type Outbound struct {
	Sent  uint32 // data messages sent, which is the number of the next
	Grant uint32 // only messages with lower numbers may be sent
}

// HasCredit reports whether a data message may be sent.
func (o *Outbound) HasCredit() bool { return int32(o.Grant-o.Sent) > 0 }

// maxGrantAhead is more than any correct peer grants in advance.
const maxGrantAhead = 1 << 20

// ReceiveGrant applies a grant of the peer. An older one that arrives late changes nothing.
func (o *Outbound) ReceiveGrant(grant uint32) error {
	if int32(grant-o.Grant) <= 0 {
		return nil
	}
	return o.raiseGrant(grant)
}

// raiseGrant is the part of ReceiveGrant that is rarely needed. On its own, it lets ReceiveGrant be
// inlined.
func (o *Outbound) raiseGrant(grant uint32) error {
	if grant-o.Sent > maxGrantAhead {
		return fmt.Errorf("%w: a grant of %d when %d messages were sent", fabric.ErrCorrupt, grant, o.Sent)
	}
	o.Grant = grant
	return nil
}
