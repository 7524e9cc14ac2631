package console

import (
	"bufio"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
)

// What ranks, hosts and programs are called, or have written, cannot control the terminal through a line of ibrun.
func TestText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"rank 3: all is well", "ibrun: rank 3: all is well\n"},
		{"rank 3 on \x1b[2Jhost\u009b1m\x9b\r", `ibrun: rank 3 on \x1b[2Jhost\u009b1m\x9b\x0d` + "\n"},
		{"two\n\tlines", "ibrun: two\n\tlines\n"}, // a hang view has many
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		Streams{Err: w}.Info(c.text, Attrs{})
		w.Close()
		if got, err := io.ReadAll(r); err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v; want %q", c.text, got, err, c.want)
		}
		r.Close()
	}
}

// Messages in JSON are whole lines, also if many goroutines print at the same time, and name the node unless they are of another.
func TestJSON(t *testing.T) {
	const writers, each = 8, 100
	direct := func(s Streams) Streams { return s }
	for name, queue := range map[string]func(Streams) Streams{"direct": direct, "queue": Streams.Async} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		s := queue(Streams{Err: w, Host: "shown elsewhere"}.WithJSON().At("j", "h", 2))
		var running sync.WaitGroup
		for k := range writers {
			running.Go(func() {
				for range each {
					s.Warn("m", Attrs{Rank: &k, Text: strings.Repeat("x", 20*k)})
				}
			})
		}
		running.Go(func() { s.Log(&message.Message{Msg: "m", Origin: message.Origin{Host: "other", Node: 1}}) })
		go func() {
			running.Wait()
			s.Flush()
			w.Close()
		}()
		count := map[message.Origin]int{}
		for in := bufio.NewScanner(r); in.Scan(); {
			m, ok := message.Decode(in.Text())
			if !ok || m.Rank != nil && len(m.Text) != 20**m.Rank {
				t.Fatalf("%s: %q is not a message", name, in.Text())
			}
			count[m.Origin]++
		}
		r.Close()
		here, other := count[message.Origin{Job: "j", Host: "h", Node: 2}], count[message.Origin{Host: "other", Node: 1}]
		if here != writers*each || other != 1 || len(count) != 2 {
			t.Errorf("%s: messages by origin: %v", name, count)
		}
	}
	if m, ok := message.Decode(strings.TrimSuffix(string(Streams{}.WithJSON().missing(3)), "\n")); !ok || m.Dropped != 3 {
		t.Errorf("dropped messages: %+v, %v", m, ok)
	}
}
