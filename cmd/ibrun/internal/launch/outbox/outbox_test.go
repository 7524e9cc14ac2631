package outbox

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// Data for a stream that is not read blocks only callers of Wait, and is written in order as soon as the stream is read.
func TestUnreadStream(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o := New(func(data []byte) error {
		_, err := w.Write(data)
		return err
	})
	want := strings.Repeat("0123456789", 20<<10) // more than a pipe holds
	for part := range 10 {
		o.Queue([]byte(want[part*len(want)/10 : (part+1)*len(want)/10]))
	}
	if o.Flush(time.Millisecond) || o.Pending() == 0 {
		t.Error("everything is written although nobody reads")
	}
	got := make(chan string)
	go func() {
		var text strings.Builder
		for buf := make([]byte, 32<<10); text.Len() < len(want); {
			n, err := r.Read(buf)
			if err != nil {
				break
			}
			text.Write(buf[:n])
		}
		got <- text.String()
	}()
	o.WaitBelow(1)
	if !o.Flush(0) || o.Pending() != 0 {
		t.Errorf("%d bytes are not written", o.Pending())
	}
	if text := <-got; text != want {
		t.Errorf("read %d bytes, want %d, or in another order", len(text), len(want))
	}
}

// An error loses only the data that could not be written.
func TestWriteError(t *testing.T) {
	var got strings.Builder
	o := New(func(data []byte) error {
		if string(data) == "b" {
			return errors.New("no space")
		}
		got.Write(data)
		return nil
	})
	for _, word := range []string{"a", "b", "c"} {
		o.Queue([]byte(word))
	}
	if !o.Flush(0) || got.String() != "ac" {
		t.Errorf("wrote %q", &got)
	}
}

// Edit changes what waits, not what is being written, and the count of bytes follows. It may also begin the writing.
func TestEdit(t *testing.T) {
	began, release, got := make(chan struct{}, 3), make(chan struct{}), ""
	o := New(func(data []byte) error {
		began <- struct{}{}
		<-release
		got += string(data)
		return nil
	})
	o.Edit(func(queue [][]byte) [][]byte { return append(queue, []byte("a")) })
	<-began
	o.Queue([]byte("bcd"))
	o.Queue([]byte("e"))
	o.Edit(func(queue [][]byte) [][]byte { return append(queue[1:], []byte("fg")) })
	if n := o.Pending(); n != 4 {
		t.Errorf("%d bytes wait, want 4", n)
	}
	close(release)
	if !o.Flush(0) || got != "aefg" {
		t.Errorf("wrote %q", got)
	}
}
