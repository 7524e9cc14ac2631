package console

import (
	"io"
	"os"
	"testing"
)

// What ranks, hosts and programs are called, or have written, cannot control the terminal through a line of ibrun.
func TestPrintf(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"rank 3: all is well", "ibrun: rank 3: all is well\n"},
		{"rank 3 on \x1b[2Jhost\u009b1m\x9b\r", `ibrun: rank 3 on \x1b[2Jhost\u009b1m\x9b\x0d` + "\n"},
		{"two\n\tlines", "ibrun: two\n\tlines\n"}, // a hang view has many
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		Streams{Err: w}.Printf("%s", c.text)
		w.Close()
		if got, err := io.ReadAll(r); err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v; want %q", c.text, got, err, c.want)
		}
		r.Close()
	}
}
