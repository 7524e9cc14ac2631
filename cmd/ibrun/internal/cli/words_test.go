package cli

import (
	"slices"
	"testing"
)

func TestSplitCommand(t *testing.T) {
	for text, want := range map[string][]string{
		"ssh":                       {"ssh"},
		" ip netns  exec ":          {"ip", "netns", "exec"},
		`sh -c 'a "b" $1' x`:        {"sh", "-c", `a "b" $1`, "x"},
		`a "b c\"d" '' e\ f "" '\'`: {"a", `b c"d`, "", "e f", "", `\`},
	} {
		if got, err := splitCommand(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "  ", "a 'b", `a "b`, `a\`} {
		if got, err := splitCommand(text); err == nil {
			t.Errorf("%s: got %q, want an error", text, got)
		}
	}
}

func FuzzSplitCommand(f *testing.F) {
	f.Add(`sh -c 'a "b" $1' \x`)
	f.Fuzz(func(t *testing.T, text string) {
		if words, err := splitCommand(text); err == nil && len(words) == 0 {
			t.Errorf("%q: no words and no error", text)
		}
	})
}
