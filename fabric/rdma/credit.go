package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

const (
	firstWindow = 1 // messages that a peer may send at first
	grownWindow = 4 // what it is granted when that was too little: enough for grants to travel with answers
)

// inbound is the receiver's account with one peer: what has arrived, and what it may send. Numbers count messages of data
// and wrap around. One message that is none may be under way besides, see unheard.
type inbound struct {
	taken  uint32 // messages that have arrived, and the number of the next
	freed  uint32 // of these, those whose slots are posted again
	window uint32 // slots that are set aside for this peer
	told   uint32 // the grant that the peer was sent last
	asked  uint32 // the grant in the last message that was no data
	// unheard: it is not known whether the peer has taken the last message that was no data, so another could find no slot.
	unheard bool
	hungry  bool // the peer has used what it knew of
}

// grant is what may be told to the peer now.
func (in *inbound) grant() uint32 { return in.freed + in.window }

// take accounts for a message that has arrived.
func (in *inbound) take(h *header) error {
	if h.seq != in.taken {
		return fmt.Errorf("%w: message %d in place of %d", fabric.ErrCorrupt, h.seq, in.taken)
	}
	if in.unheard && int32(h.heard-in.asked) >= 0 {
		in.unheard = false
	}
	if h.kind != kindData {
		return nil
	}
	if in.taken == in.told {
		return fmt.Errorf("%w: message %d, which was not granted", fabric.ErrCorrupt, h.seq)
	}
	in.taken++
	in.hungry = h.hungry
	return nil
}

// due tells whether the peer is to be sent a grant even if nothing else is sent to it: when it may be waiting, or before it
// does.
func (in *inbound) due() bool {
	news := in.grant() - in.told
	if in.unheard || news == 0 {
		return false
	}
	return news >= (in.window+1)/2 || in.hungry && in.taken == in.freed
}

// wider is the window that a hungry peer is to have, at most limit.
func (in *inbound) wider(limit uint32) uint32 {
	return min(max(2*in.window, grownWindow), max(limit, in.window))
}

// outbound is the sender's account.
type outbound struct {
	sent  uint32 // messages sent, and the number of the next
	grant uint32 // it must stay below this
}

func (o *outbound) room() bool { return int32(o.grant-o.sent) > 0 }

// mostGrant is more than any peer grants beyond what was sent.
const mostGrant = 1 << 20

// allow takes a grant. An older one that comes late changes nothing.
func (o *outbound) allow(grant uint32) error {
	if int32(grant-o.grant) <= 0 {
		return nil
	}
	return o.raise(grant)
}

func (o *outbound) raise(grant uint32) error {
	if grant-o.sent > mostGrant {
		return fmt.Errorf("%w: %d messages are granted when %d were sent", fabric.ErrCorrupt, grant, o.sent)
	}
	o.grant = grant
	return nil
}
