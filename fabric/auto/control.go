package auto

import (
	"encoding/binary"
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
//	18  address   of the sender, as in fabric.Domain.Addr; in MOVE a handover; in an answer why its device refuses, or nothing
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
	addr  []byte // or what stands in its place; a part of the message; it is not checked
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

// handover is what MOVE carries besides the head of a control message:
//
//	0   received  4 bytes: number of messages that have arrived over the connection that is left
//	4   kept      4 bytes: number of the first message that can be sent again
//	8   noticed   1 byte: 1 if the sender knows why the devices cannot continue
//	9   address   of the sender, as in fabric.Domain.Addr
//
// Integers are in little-endian order.
type handover struct {
	received, kept uint32
	noticed        bool
	addr           []byte
}

const handoverBytes = 9

func (h *handover) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, h.received)
	b = binary.LittleEndian.AppendUint32(b, h.kept)
	noticed := byte(0)
	if h.noticed {
		noticed = 1
	}
	return append(append(b, noticed), h.addr...)
}

// parseHandover parses what follows the head of MOVE. The address is a part of b; it is not checked.
func parseHandover(b []byte) (handover, error) {
	if len(b) < handoverBytes || b[8] > 1 {
		return handover{}, fmt.Errorf("%w: %w: MOVE with %x", fabric.ErrCorrupt, errControl, b)
	}
	return handover{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), b[8] == 1, b[handoverBytes:]}, nil
}
