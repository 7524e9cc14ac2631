package mpi4pytest

import "testing"

// TestLines shows which lines count.
func TestLines(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"a\n// communication begins\nb\n\n// why\nc // why\n\t// communication ends\nd", 2},
		{"# communication begins\nb\n# communication ends\nx\n# communication begins\nc\nd\n# communication ends\n", 3},
		{"// communication begins\n// communication ends", 0},
	} {
		if got, err := Lines(c.text); err != nil || got != c.want {
			t.Errorf("%q: %d, %v; want %d", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "a", "# communication ends", "# communication begins\na",
		"# communication begins\n# communication begins\n# communication ends"} {
		if got, err := Lines(text); err == nil {
			t.Errorf("%q: %d; want an error", text, got)
		}
	}
}
