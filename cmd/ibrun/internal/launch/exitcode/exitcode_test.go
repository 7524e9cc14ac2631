package exitcode

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// TestIsSignal: only the codes above SignalBase are those of signals, also in errors that are wrapped.
func TestIsSignal(t *testing.T) {
	interrupt := Errorf(SignalBase+int(syscall.SIGINT), "interrupted")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("without a code"), false},
		{context.Canceled, false},
		{Errorf(Failed, "failed"), false},
		{Errorf(TimedOut, "timed out"), false},
		{Errorf(NotFound, "not found"), false},
		{Errorf(SignalBase, "no signal has the number 0"), false},
		{interrupt, true},
		{fmt.Errorf("node 0 did not answer: %w", interrupt), true},
		{Errorf(SignalBase+int(syscall.SIGTERM), "asked to end"), true},
	} {
		if got := IsSignal(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
