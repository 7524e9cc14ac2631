package auth

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// The limits of a secret file, in bytes.
const (
	minSecret = 32
	maxSecret = 64 << 10
)

// remedy explains how to make a secret file.
const remedy = "make it on one node and copy it to the others: (umask 077; head -c 32 /dev/urandom >FILE)"

// Secret is what all nodes of a job know and other processes do not. Functions of package fmt print "(secret)" in its place.
type Secret struct{ bytes []byte }

// NewSecret returns a secret with these bytes, which the caller must not change any more.
func NewSecret(b []byte) Secret { return Secret{b} }

// Format prints "(secret)" for every verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

// ReadSecret reads a secret file. It returns an error if other users may read the file, or if it has fewer than 32 bytes.
func ReadSecret(name string) (Secret, error) {
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return Secret{}, fmt.Errorf("secret file: %w; %s", err, remedy)
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
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return Secret{}, fmt.Errorf("secret file: %w", err)
	}
	if len(b) < minSecret || len(b) > maxSecret {
		return Secret{}, fmt.Errorf("secret file %s has %d bytes, want %d to %d; %s", name, len(b), minSecret, maxSecret, remedy)
	}
	return Secret{b}, nil
}

// Derive returns the key for one purpose. All nodes that have the secret derive the same key. Neither the secret nor the key
// of another purpose can be computed from it.
func (s Secret) Derive(salt []byte, purpose string) (Key, error) {
	return derive(s.bytes, salt, purpose)
}

func derive(secret, salt []byte, purpose string) (Key, error) {
	b, err := hkdf.Key(sha256.New, secret, salt, purpose, KeyBytes)
	if err != nil {
		return Key{}, fmt.Errorf("auth: derive the key for %q: %w", purpose, err)
	}
	return Key(b), nil
}
