package uverbs

import (
	"encoding/binary"
	"fmt"
	"io"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Sizes of one read from an event descriptor in bytes. A buffer must not be shorter.
const (
	AsyncEventBytes = 16
	CompEventBytes  = 8
)

// DecodeAsyncEvent decodes an event that was read from [Context.AsyncFD]. It fails if b is not exactly one event.
func DecodeAsyncEvent(b []byte) (abi.AsyncEventDesc, error) {
	if len(b) != AsyncEventBytes {
		return abi.AsyncEventDesc{}, fmt.Errorf("asynchronous event of %d bytes, not %d: %w", len(b), AsyncEventBytes,
			io.ErrUnexpectedEOF)
	}
	return abi.AsyncEventDesc{
		Element:   binary.NativeEndian.Uint64(b),
		EventType: binary.NativeEndian.Uint32(b[8:]),
	}, nil
}

// DecodeCompEvent decodes an event that was read from a completion channel. It returns the user handle of the queue.
func DecodeCompEvent(b []byte) (uint64, error) {
	if len(b) != CompEventBytes {
		return 0, fmt.Errorf("completion event of %d bytes, not %d: %w", len(b), CompEventBytes, io.ErrUnexpectedEOF)
	}
	return binary.NativeEndian.Uint64(b), nil
}
