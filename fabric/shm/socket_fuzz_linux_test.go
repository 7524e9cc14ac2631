package shm

import "testing"

// TestSegmentPrefixes: no strict prefix of the message with a segment is valid.
func TestSegmentPrefixes(t *testing.T) {
	msg := appendSegment(nil, 1<<63+5)
	if id, ok := parseSegment(msg); !ok || id != 1<<63+5 {
		t.Errorf("the whole message: id %d, %v", id, ok)
	}
	for n := range msg {
		if _, ok := parseSegment(msg[:n]); ok {
			t.Errorf("%d of %d bytes are a valid message", n, len(msg))
		}
	}
}

func FuzzSegment(f *testing.F) {
	f.Add(appendSegment(nil, 7))
	f.Add([]byte{'W'})
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, ok := parseSegment(b); ok && string(appendSegment(nil, id)) != string(b) {
			t.Errorf("%x is a message with segment %d", b, id)
		}
	})
}
