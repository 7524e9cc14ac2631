package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

const (
	// KeyBytes is the length of a [Key] in bytes.
	KeyBytes = 32
	// MACBytes is the length of a MAC in bytes.
	MACBytes = sha256.Size
)

// Key is a symmetric key that only the processes of one job know. Its text form is 64 hex digits. Functions of package fmt
// print "(secret)" in its place.
type Key [KeyBytes]byte

// Format prints "(secret)" for every verb.
func (Key) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

// hidden is printed in place of a key or secret.
const hidden = "(secret)"

// MarshalText returns the 64 hex digits.
func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// UnmarshalText accepts exactly 64 hex digits.
func (k *Key) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(k)) {
		return fmt.Errorf("auth: a key has %d hex digits, but the text has %d bytes", hex.EncodedLen(len(k)), len(text))
	}
	if _, err := hex.Decode(k[:], text); err != nil {
		return fmt.Errorf("auth: key: %w", err)
	}
	return nil
}

// MAC returns the MAC of the label followed by the parts.
func (k Key) MAC(label string, parts ...[]byte) []byte { return mac(k[:], label, parts...) }

// Verify reports whether m is the MAC of the label followed by the parts.
func (k Key) Verify(m []byte, label string, parts ...[]byte) bool {
	return Equal(m, mac(k[:], label, parts...))
}

// FrameMAC returns the MAC of frame number n of a stream: of n as 8 bytes, big-endian, followed by the parts. The number
// counts up from 0, so a frame that is left out, repeated or moved does not verify.
func (k Key) FrameMAC(n uint64, parts ...[]byte) []byte {
	return mac(k[:], string(binary.BigEndian.AppendUint64(nil, n)), parts...)
}

// VerifyFrame reports whether m is the MAC of frame number n.
func (k Key) VerifyFrame(m []byte, n uint64, parts ...[]byte) bool {
	return Equal(m, k.FrameMAC(n, parts...))
}

// Equal reports whether two MACs or tokens are equal. The time it takes does not depend on their content.
func Equal(a, b []byte) bool { return hmac.Equal(a, b) }

func mac(key []byte, label string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	io.WriteString(h, label)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
