//go:build linux

package verbs_test

import (
	"io"
	"os"
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
)

// TestLiveExamples: the examples print on a device of the kernel what they print on a simulated one, and FetchAdd what it should.
func TestLiveExamples(t *testing.T) {
	live.Device(t)
	for _, c := range []struct {
		example func()
		want    string
	}{
		{ExampleQP_Send, "5 bytes: hello\n"},
		{ExampleQP_Write, "written\n"},
		{ExampleQP_Read, "memory\n"},
		{ExampleQP_FetchAdd, "40 42\n"},
	} {
		if got := printed(t, c.example); got != c.want {
			t.Errorf("%q was printed, want %q", got, c.want)
		}
	}
}

// printed returns what f prints.
func printed(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	stdout := os.Stdout
	os.Stdout = w
	func() {
		defer func() { os.Stdout = stdout }()
		f()
	}()
	must(t, w.Close())
	text, err := io.ReadAll(r)
	must(t, err)
	return string(text)
}
