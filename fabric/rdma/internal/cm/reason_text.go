package cm

import (
	"syscall"

	"github.com/ibrun/ibrun/internal/printable"
)

// maxReason is how many bytes of a reason a datagram has room for, also in the shortest packets.
const maxReason = 256 - headerBytes - macBytes

// Reason returns the text of an error for a datagram, after head, which must be short. Of a long
// one it returns the end, which names the call, or the status of a request.
func Reason(head string, err error) []byte {
	const cut = "... "
	text := err.Error()
	if room := maxReason - len(head); len(text) > room {
		text = cut + text[len(text)-room+len(cut):]
	}
	return []byte(head + text)
}

// peerReason is the reason in a datagram of a peer.
type peerReason struct {
	text   string
	number syscall.Errno // 0 if there is none
}

// Reason returns the reason in a datagram, which another process has written.
func (m *Message) Reason() error {
	return &peerReason{printable.Line(string(m.Address)), syscall.Errno(m.Grant)}
}

func (e *peerReason) Error() string { return e.text }

func (e *peerReason) Unwrap() error {
	if e.number == 0 {
		return nil
	}
	return e.number
}
