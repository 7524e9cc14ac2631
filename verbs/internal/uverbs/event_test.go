package uverbs

import (
	"errors"
	"io"
	"testing"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

var (
	asyncEvent = []byte{2, 0, 0, 0, 0, 0, 0, 1, 10, 0, 0, 0, 0, 0, 0, 0}
	compEvent  = []byte{1, 2, 3, 4, 5, 6, 7, 8}
)

func TestDecodeEvents(t *testing.T) {
	want := abi.AsyncEventDesc{Element: 1<<56 | 2, EventType: uint32(abi.EventPortErr)}
	if got, err := DecodeAsyncEvent(asyncEvent); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := DecodeCompEvent(compEvent); err != nil || got != 0x0807060504030201 {
		t.Errorf("got %#x, %v", got, err)
	}
}

func TestEventPrefixes(t *testing.T) {
	for n := range asyncEvent {
		if _, err := DecodeAsyncEvent(asyncEvent[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("asynchronous event of %d bytes: %v", n, err)
		}
	}
	for n := range compEvent {
		if _, err := DecodeCompEvent(compEvent[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("completion event of %d bytes: %v", n, err)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add(asyncEvent)
	f.Add(compEvent)
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := DecodeAsyncEvent(b); (err == nil) != (len(b) == AsyncEventBytes) || err != nil && e != (abi.AsyncEventDesc{}) {
			t.Errorf("% x: %+v, %v", b, e, err)
		}
		if h, err := DecodeCompEvent(b); (err == nil) != (len(b) == CompEventBytes) || err != nil && h != 0 {
			t.Errorf("% x: %#x, %v", b, h, err)
		}
	})
}
