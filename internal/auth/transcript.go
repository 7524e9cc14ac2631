package auth

import (
	"fmt"
	"io"
	"slices"
)

// Transcript is the sequence of messages that both sides of a handshake have exchanged, without their MACs. A MAC over it
// proves that its sender knows the secret and saw exactly these messages. Since each side puts random bytes into its
// messages, a recorded MAC is of no use in another handshake.
type Transcript struct {
	secret   []byte
	messages []byte
}

// Transcript returns a transcript of these messages under the secret.
func (s Secret) Transcript(messages ...[]byte) *Transcript {
	return &Transcript{secret: s.bytes, messages: slices.Concat(messages...)}
}

// Transcript returns a transcript of these messages under the key.
func (k Key) Transcript(messages ...[]byte) *Transcript {
	return &Transcript{secret: k[:], messages: slices.Concat(messages...)}
}

// Format prints "(secret)" for every verb.
func (*Transcript) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

// MAC returns the MAC of the label followed by all messages. The sides must use different labels, so that the MAC of one is
// not valid for the other.
func (t *Transcript) MAC(label string) []byte { return mac(t.secret, label, t.messages) }

// Verify reports whether m is the MAC under the label.
func (t *Transcript) Verify(m []byte, label string) bool { return Equal(m, t.MAC(label)) }

// Derive returns a key for one purpose that is valid for this handshake only.
func (t *Transcript) Derive(purpose string) (Key, error) {
	return derive(t.secret, t.messages, purpose)
}
