package guest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// pieces keeps what comes in one write in one piece.
type pieces []string

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, string(b))
	return len(b), nil
}

func TestLines(t *testing.T) {
	var got pieces
	l := &lines{to: &got, mark: "[n1] "}
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

func TestLongLinesAreNotHeldBack(t *testing.T) {
	var got bytes.Buffer
	l := &lines{to: &got, mark: "> "}
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
