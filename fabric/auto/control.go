package auto

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/auth"
)

// A control message travels over TCP between two processes that are not connected over RDMA yet, see fallback:
//
//	0   tag       16 bytes, which no other message begins with: they are derived from the key of the job
//	16  kind      1 byte
//	17  address   of the sender, as in fabric.Domain.Addr
type controlKind uint8

const (
	controlAsk     controlKind = iota + 1 // does the process poll?
	controlAnswer                         // it does, and has handled what had arrived over RDMA
	controlPropose                        // use TCP
	controlAgree                          // TCP is used from now on
	controlRefuse                         // RDMA is used: the peer is connected
)

// tagBytes is the length of the tag.
const tagBytes = 16

var (
	errControl    = errors.New("malformed control message")
	errUnanswered = errors.New("none was answered; are VLAN, partition, firewall and routes of the two devices right?")
)

// controlTag returns the tag of the control messages of a job.
func controlTag(key [32]byte) [tagBytes]byte { return [tagBytes]byte(auth.Key(key).MAC("fallback")) }

// appendControl appends a control message.
func appendControl(b []byte, tag [tagBytes]byte, kind controlKind, addr []byte) []byte {
	return append(append(append(b, tag[:]...), byte(kind)), addr...)
}

// parseControl parses a control message. The address is a part of b. It is not checked here.
func parseControl(b []byte, tag [tagBytes]byte) (kind controlKind, addr []byte, err error) {
	if len(b) <= tagBytes || [tagBytes]byte(b) != tag || b[tagBytes] < byte(controlAsk) || b[tagBytes] > byte(controlRefuse) {
		return 0, nil, fmt.Errorf("%w: %w: %x", fabric.ErrCorrupt, errControl, b)
	}
	return controlKind(b[tagBytes]), b[tagBytes+1:], nil
}
