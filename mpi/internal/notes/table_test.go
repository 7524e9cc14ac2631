package notes

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// TestTransfer: a note arrives as it was sent, except for the beginning of a long source position.
// It belongs to one message. Both sides count it.
func TestTransfer(t *testing.T) {
	for where, want := range map[string]string{
		"a.go:1": "a.go:1", "a b.go:2": "a b.go:2", strings.Repeat("x", maxWhere) + "y": strings.Repeat("x", maxWhere-1) + "y",
	} {
		from, to := NewTable(), NewTable()
		from.Set(3, &Note{Type: "float64", Op: perf.Send, Where: where})
		op, payload := from.Send(1, 3)
		if !to.Receive(0, op, payload) {
			t.Fatalf("%q: refused", payload)
		}
		if to.Receive(0, op, payload) {
			t.Error("a second note for the same message was taken")
		}
		n := to.Take(0)
		if n == nil || n.Type != "float64" || n.Op != perf.Send || n.Where != want {
			t.Errorf("%q: %v arrived, want %q", where, n, want)
		}
		if to.Take(0) != nil {
			t.Error("a note belongs to two messages")
		}
		if sent := from.Sent(3); !slices.Equal(sent, []uint64{0, 1, 0}) || to.Arrived(0) != 1 || to.Arrived(1) != 0 {
			t.Errorf("sent %v, arrived %d and %d", sent, to.Arrived(0), to.Arrived(1))
		}
	}
}

// TestRefused: a note that no correct process sends is refused, and every note without checks.
func TestRefused(t *testing.T) {
	for _, x := range []struct {
		op      uint64
		payload string
	}{{1, "int32"}, {1, ""}, {256, "int32 a.go:1"}, {1, "int32 " + strings.Repeat("x", maxWhere+1)}} {
		n := NewTable()
		if n.Receive(0, x.op, []byte(x.payload)) || n.Take(0) != nil {
			t.Errorf("%d %q was taken", x.op, x.payload)
		}
	}
	var none Table
	if none.Receive(0, 1, []byte("int32 a.go:1")) || none.Take(0) != nil {
		t.Error("a note was taken without checks")
	}
}

// TestMatch: a receive fails if its message has elements of another type. Packed bytes, messages
// without elements and messages without a note are accepted.
func TestMatch(t *testing.T) {
	for _, x := range []struct {
		own, sent string
		want      error
	}{
		{"int32", "int32", nil}, {"int32", "", nil}, {"int32", "float64", ErrType}, {"int32", "mixed:8:2:1", ErrType},
		{"int32", "packed", nil}, {"packed", "float64", nil},
	} {
		n := NewTable()
		own, sent := &Note{Type: x.own}, &Note{Type: x.sent}
		if x.sent == "" {
			sent = nil
		}
		n.Set(5, own)
		err := n.Match(5, sent, 2)
		if !errors.Is(err, x.want) || (err == nil) != (x.want == nil) {
			t.Errorf("%s into %s: %v, want %v", x.sent, x.own, err, x.want)
		}
		if a, b := n.Of(5); a != own || b != sent {
			t.Errorf("%s into %s: the notes are %v and %v", x.sent, x.own, a, b)
		}
		n.Set(5, own)
		if _, b := n.Of(5); b != nil {
			t.Errorf("the next use of the request has the note %v", b)
		}
	}
}

// TestLose: the first message that is lost is reported. One without a note is not.
func TestLose(t *testing.T) {
	n := NewTable()
	n.Lose(nil, 1)
	if err := n.Lost(); err != nil {
		t.Error(err)
	}
	n.Lose(&Note{Type: "int8", Op: perf.Send, Where: "a.go:1"}, 2)
	n.Lose(&Note{Type: "int8", Op: perf.Send, Where: "b.go:1"}, 3)
	if err := n.Lost(); err == nil || !strings.Contains(err.Error(), "rank 2 sent it with Send of int8 at a.go:1") {
		t.Errorf("lost: %v", err)
	}
}
