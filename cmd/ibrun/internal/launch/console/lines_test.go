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
// the pipe is read. It is printed in two parts or more if the pipe has accepted a line in between.
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
	in, got, dropped := bufio.NewReader(r), 0, 0
	read := func() (end bool) {
		text, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(text, "ibrun: x") {
			got++
			return false
		}
		if text == "ibrun: the end\n" {
			return true
		}
		var part int
		if n, err := fmt.Sscanf(text, "ibrun: %d messages", &part); n != 1 || err != nil || part == 0 {
			t.Fatalf("%d lines were read; then %q, %v", got, text, err)
		}
		dropped += part
		return false
	}
	for s.lines.out.Pending() > maxQueued/2 {
		read()
	}
	s.Info("the end", Attrs{})
	for !read() {
	}
	if got+dropped != count || dropped == 0 {
		t.Errorf("%d lines were read, and %d were dropped; want %d in all", got, dropped, count)
	}
	s.LimitFlush(0)
	s.Flush()
}
