package remote

import (
	"os"
	"runtime"
	"slices"
	"testing"
)

// TestLinesBeforeForward: lines that a command has written before they are forwarded are part of its diagnosis.
func TestLinesBeforeForward(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("why\n"); err != nil {
		t.Fatal(err)
	}
	l := readLines(r, maxLine)
	for len(l.last()) == 0 { // it returns after a while, also if the line has not been read
	}
	forwarded := make(chan string, 1)
	l.forward(func(line string) { forwarded <- line })
	if _, err := w.WriteString("later\n"); err != nil {
		t.Fatal(err)
	}
	if got := <-forwarded; got != "later" {
		t.Errorf("forwarded %q", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := l.last(); !slices.Equal(got, []string{"why"}) {
		t.Errorf("kept %q", got)
	}
}

// Bytes count as unread from when they are written until their lines are kept, however slow the reader is.
func TestUnreadLines(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l := readLines(r, maxLine)
	for i := range 100 {
		l.mu.Lock() // the reader cannot keep a line
		if _, err := w.WriteString("line\n"); err != nil {
			t.Fatal(err)
		}
		for range 20 { // while it reads
			if !l.unread() {
				t.Error("a line that is not kept does not count as unread")
			}
			runtime.Gosched()
		}
		l.mu.Unlock()
		for l.unread() {
			runtime.Gosched()
		}
		l.mu.Lock()
		kept := len(l.kept)
		l.mu.Unlock()
		if kept != min(i+1, maxKept) {
			t.Fatalf("%d lines are kept of %d", kept, i+1)
		}
	}
}
