package guest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// writes records the data of each Write.
type writes []string

func (p *writes) Write(b []byte) (int, error) {
	*p = append(*p, string(b))
	return len(b), nil
}

func TestPrefixWriter(t *testing.T) {
	var got writes
	l := &prefixWriter{to: &got, prefix: "[n1] "}
	for _, s := range []string{"a", "b\nc", "\n", "", "\n\nlast"} {
		if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
	if err := errors.Join(l.flush(), l.flush()); err != nil {
		t.Error(err)
	}
	if want := []string{"[n1] ab\n", "[n1] c\n", "[n1] \n", "[n1] \n", "[n1] last"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLongLinesAreNotBuffered(t *testing.T) {
	var got bytes.Buffer
	l := &prefixWriter{to: &got, prefix: "> "}
	long := strings.Repeat("x", maxLine+1)
	l.Write([]byte(long))
	if got.String() != "> "+long {
		t.Errorf("%d bytes of %d came through", got.Len(), len(long)+2)
	}
}

func TestHidden(t *testing.T) {
	got := Hidden([]string{"/home/me", "/tmp", "/tmp/a", "/tmpfile", "/dev/shm/x", "/run/user/0", "/usr/run/x"})
	if want := []string{"/tmp/a", "/dev/shm/x", "/run/user/0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
