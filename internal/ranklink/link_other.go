//go:build !linux

package ranklink

import (
	"context"
	"os"
)

// Link is one end of the connection between agent and rank. It does not exist on this system.
type Link struct{}

// Pair returns [ErrNotSupported].
func Pair() (agent *Link, rankEnd *os.File, err error) { return nil, nil, ErrNotSupported }

// FromEnv returns [ErrNotSupported] if IBRUN_FD is set; otherwise all results are nil.
func FromEnv(getenv func(string) string) (*Link, *RankInfo, error) {
	if getenv("IBRUN_FD") == "" {
		return nil, nil, nil
	}
	return nil, nil, ErrNotSupported
}

// Send returns [ErrNotSupported].
func (*Link) Send(Kind, any) error { return ErrNotSupported }

// TrySend returns [ErrNotSupported].
func (*Link) TrySend(Kind, any) (sent bool, err error) { return false, ErrNotSupported }

// SendFiles returns [ErrNotSupported].
func (*Link) SendFiles(Kind, any, ...int) error { return ErrNotSupported }

// Discard does nothing: there are no descriptors.
func (Message) Discard() {}

// Recv returns [ErrNotSupported].
func (*Link) Recv(context.Context) (Message, error) { return Message{}, ErrNotSupported }

// Shutdown returns [ErrNotSupported].
func (*Link) Shutdown() error { return ErrNotSupported }

// Close returns [ErrNotSupported].
func (*Link) Close() error { return ErrNotSupported }
