package auth

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// The limits of a secret, in bytes.
const (
	minSecret = 32
	maxSecret = 64 << 10
)

// Remedy explains how to make a secret file.
const Remedy = "make it on one node and copy it to the others: ibrun secret FILE"

// Secret is what all nodes of a job know and other processes do not. Functions of package fmt print "(secret)" in its place.
type Secret struct{ bytes []byte }

// NewSecret returns a secret with these bytes, which the caller must not change any more.
func NewSecret(b []byte) Secret { return Secret{b} }

// Format prints "(secret)" for every verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

// ReadSecret reads a secret file. A newline at its end is not a part of the secret. The file must be a regular one of at least 32
// bytes that only this user, and root, can read or write. A file of root may also be readable by a group of this process,
// as the files are that Kubernetes mounts. A symbolic link is followed: what is checked is the file that is read.
func ReadSecret(name string) (Secret, error) {
	// Without O_NONBLOCK a FIFO would block until it has a writer.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return Secret{}, fmt.Errorf("secret file: %w; %s", err, Remedy)
	}
	if err != nil {
		return Secret{}, fmt.Errorf("secret file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err == nil {
		err = checkAccess(info)
	}
	if err != nil {
		return Secret{}, fmt.Errorf("secret file %s: %w", name, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+2))
	if err != nil {
		return Secret{}, fmt.Errorf("secret file: %w", err)
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) < minSecret || len(b) > maxSecret {
		return Secret{}, fmt.Errorf("secret file %s has %d bytes, want %d to %d; %s", name, len(b), minSecret, maxSecret, Remedy)
	}
	return Secret{b}, nil
}

// WriteSecret makes a file with a new random secret of 32 bytes, as 64 hex digits, that only this user can read. It does not
// replace a file.
func WriteSecret(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: use that file, or remove it first; all nodes of a job need the same", err)
	}
	if err != nil {
		return err
	}
	random := make([]byte, minSecret)
	rand.Read(random)
	_, err = fmt.Fprintf(f, "%s\n", hex.EncodeToString(random))
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
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
