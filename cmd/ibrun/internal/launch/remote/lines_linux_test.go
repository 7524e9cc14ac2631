package remote

import (
	"os"
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
	l := readLines(r)
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
