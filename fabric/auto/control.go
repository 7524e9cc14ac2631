package auto

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/auth"
)

// A control message travels over TCP between two processes that choose how to reach each other, see fallback
// and handovers:
//
//	0   tag       16 bytes, which no other message begins with: they are derived from the key of the job
//	16  kind      1 byte
//	17  given up  1 byte: how many pairs of RDMA devices the two processes have given up before; in an answer that of the question
//	18  address   of the sender, as in fabric.Domain.Addr; in MOVE a handover
type controlKind uint8

const (
	controlAsk     controlKind = iota + 1 // does the process poll?
	controlAnswer                         // it does, and has handled what had arrived over RDMA
	controlPropose                        // give up the pair of RDMA devices that is in use
	controlAgree                          // it is given up: the next pair of devices is used from now on, or TCP
	controlRefuse                         // it is not given up: the peer is connected
	controlMove                           // the connection over the pair of devices has ended for good, see handover
	controlEnd                            // the last message of before was sent, see handovers; over any transport, without address
)

// tagBytes is the length of the tag.
const tagBytes = 16

var (
	errControl    = errors.New("malformed control message")
	errUnanswered = errors.New("none was answered; are VLAN, partition, firewall and routes of the two devices right?")
)

// controlTag returns the tag of the control messages of a job.
func controlTag(key [32]byte) [tagBytes]byte { return [tagBytes]byte(auth.Key(key).MAC("fallback")) }

// control is a control message.
type control struct {
	kind  controlKind
	given uint8
	addr  []byte // a part of the message; it is not checked
}

// append appends the message.
func (c *control) append(b []byte, tag [tagBytes]byte) []byte {
	return append(append(append(b, tag[:]...), byte(c.kind), c.given), c.addr...)
}

// parseControl parses a control message.
func parseControl(b []byte, tag [tagBytes]byte) (control, error) {
	if len(b) < tagBytes+2 || [tagBytes]byte(b) != tag || b[tagBytes] < byte(controlAsk) || b[tagBytes] > byte(controlEnd) {
		return control{}, fmt.Errorf("%w: %w: %x", fabric.ErrCorrupt, errControl, b)
	}
	return control{controlKind(b[tagBytes]), b[tagBytes+1], b[tagBytes+2:]}, nil
}
