package coordinator

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
	"github.com/ibrun/ibrun/internal/waittest"
)

// TestCannotStart: every host that fails has one line. Where a host does not speak the protocol, it says that, and not how the
// command has ended, whichever is known first.
func TestCannotStart(t *testing.T) {
	ended := func(host string) *remote.Error { return &remote.Error{Host: host, Reason: "ended", Code: 141} }
	garbage := &remote.Error{Host: "b", Reason: "garbage"}
	for _, c := range []struct {
		name               string
		first, later, then *remote.Error
		want               string
	}{
		{"the end is known first", ended("b"), garbage, ended("c"), "cannot start ibrun on b: garbage\ncannot start ibrun on c: ended"},
		{"the end is known last", garbage, nil, ended("b"), "cannot start ibrun on b: garbage"},
		{"another host", ended("c"), garbage, ended("b"), "cannot start ibrun on c: ended\ncannot start ibrun on b: garbage"},
	} {
		t.Run(c.name, func(t *testing.T) {
			starts := make(chan remote.Event, 1)
			cl := &Cluster{peers: Peers{Starts: starts}, startFailed: make(chan *remote.Error, 1)}
			starts <- remote.Event{Err: c.then}
			if c.later != nil {
				cl.startFailed <- c.later
			}
			if err := cl.cannotStart(t.Context(), c.first, console.Streams{}); err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestCannotStartLate: cannotStart waits for the handshake with a host whose command has ended, also longer than for the failures
// of others, and shows the messages that come meanwhile.
func TestCannotStartLate(t *testing.T) {
	starts, done := make(chan remote.Event, 1), make(chan struct{})
	cl := &Cluster{peers: Peers{Starts: starts}, startFailed: make(chan *remote.Error, 1),
		handshakes: map[string]<-chan struct{}{"b": done}}
	starts <- remote.Event{Note: &message.Message{Level: slog.LevelError, Attrs: message.Attrs{Text: "no such directory"}}}
	shown, err := os.Create(t.TempDir() + "/shown")
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Close()
	failed := make(chan error, 1)
	go func() {
		failed <- cl.cannotStart(t.Context(), &remote.Error{Host: "b", Reason: "ended", Code: 141}, console.Streams{Err: shown})
	}()
	waittest.Nothing(t, 2*alsoFailed, "cannotStart does not wait for the handshake", failed)
	cl.startFailed <- &remote.Error{Host: "b", Reason: "garbage"}
	close(done)
	err = waittest.Receive(t, "cannotStart returns", failed)
	if err.Error() != "cannot start ibrun on b: garbage" {
		t.Error(err)
	}
	text, err := os.ReadFile(shown.Name())
	if err != nil || !strings.Contains(string(text), "no such directory") {
		t.Errorf("shown: %q, %v", text, err)
	}
}
