package console

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Lines for a pipe that is not read do not block the caller, and the number of dropped lines is printed as soon as
// the pipe is read.
func TestUnreadStandardError(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := Streams{Err: w}.Async()
	line := strings.Repeat("x", 1<<10)
	const count = 3 << 10
	for range count {
		s.Info(line, Attrs{})
	}
	s.LimitFlush(time.Millisecond)
	s.Flush()
	in, got := bufio.NewReader(r), 0
	for s.lines.out.Pending() > maxQueued/2 {
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		got++
	}
	s.Info("the end", Attrs{})
	for {
		text, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(text, "ibrun: x") {
			got++
			continue
		}
		var dropped int
		if n, err := fmt.Sscanf(text, "ibrun: %d messages", &dropped); n != 1 || err != nil || got+dropped != count || dropped == 0 {
			t.Errorf("%d lines were read; then %q, %v; want %d in all", got, text, err, count)
		}
		break
	}
	if text, err := in.ReadString('\n'); text != "ibrun: the end\n" {
		t.Errorf("read %q, %v", text, err)
	}
	s.LimitFlush(0)
	s.Flush()
}
