package control

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

const (
	// secretMin and secretMax bound a secret file, in bytes.
	secretMin = 32
	secretMax = 64 << 10
)

// HowTo tells how to make a secret file.
const HowTo = "make it on one node and copy it to the others: (umask 077; head -c 32 /dev/urandom >FILE)"

// Secret is what all nodes of a job know and nobody else does. Printed with fmt it stays hidden.
type Secret struct{ bytes []byte }

// Format hides the secret, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, "(secret)") }

// ReadSecret reads a secret file. One that others may read is refused, and one of fewer than 32 bytes.
func ReadSecret(name string) (Secret, error) {
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return Secret{}, fmt.Errorf("secret file: %w; %s", err, HowTo)
	}
	if err != nil {
		return Secret{}, fmt.Errorf("secret file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Secret{}, fmt.Errorf("secret file: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return Secret{}, fmt.Errorf("secret file %s is open to others (mode %04o): chmod 600 %s", name, mode, name)
	}
	b, err := io.ReadAll(io.LimitReader(f, secretMax+1))
	if err != nil {
		return Secret{}, fmt.Errorf("secret file: %w", err)
	}
	if len(b) < secretMin || len(b) > secretMax {
		return Secret{}, fmt.Errorf("secret file %s has %d bytes, want %d to %d; %s", name, len(b), secretMin, secretMax, HowTo)
	}
	return Secret{b}, nil
}

// Derive makes a key for one use from the secret. Others with the same secret get the same key; nobody can tell the
// secret, or the key of another use, from it.
func (s Secret) Derive(salt []byte, use string) (key [32]byte, err error) {
	b, err := hkdf.Key(sha256.New, s.bytes, salt, use, len(key))
	if err != nil {
		return key, fmt.Errorf("derive %s from the secret: %w", use, err)
	}
	return [32]byte(b), nil
}

// proof shows that its maker has the secret and has seen what was said so far.
func (s Secret) proof(role string, said ...[]byte) []byte {
	h := hmac.New(sha256.New, s.bytes)
	h.Write([]byte(role))
	for _, b := range said {
		h.Write(b)
	}
	return h.Sum(nil)
}
