package core

import (
	"strings"
	"testing"
)

// TestIORule checks the value of IO for each combination of ranks that offer I/O.
func TestIORule(t *testing.T) {
	for _, c := range []struct {
		id, able string
		want     []int
	}{
		{"S0-23", "yyy", []int{AnySource, AnySource, AnySource}},
		{"S0-24", "yny", []int{0, 0, 2}},
		{"S0-25", "nny", []int{2, 2, 2}},
		{"S0-26", "nnn", []int{ProcNull, ProcNull, ProcNull}},
		{"S1-12", "nyn", []int{1, 1, 1}},
	} {
		t.Run(c.id, func(t *testing.T) {
			n, first := len(c.able), strings.IndexByte(c.able, 'y')
			if first < 0 {
				first = n
			}
			for self, want := range c.want {
				if got := ioAttribute(self, n, first, c.able[self] == 'y', c.able == strings.Repeat("y", n)); got != want {
					t.Errorf("%s: rank %d has %d, want %d", c.able, self, got, want)
				}
			}
		})
	}
}

// TestLongNames: long host names are truncated, but not within a character.
func TestLongNames(t *testing.T) {
	t.Run("S0-42", func(t *testing.T) {
		const boot = "6e4eb0ac-5ba4-467c-9bb8-f0a558030386"
		for host, want := range map[string]string{
			"":                             "-6e4eb0ac",
			"a-b.c":                        "a-b.c-6e4eb0ac",
			strings.Repeat("x", 300):       strings.Repeat("x", MaxProcessorName-9) + "-6e4eb0ac",
			"x" + strings.Repeat("é", 200): "x" + strings.Repeat("é", (MaxProcessorName-10)/2) + "-6e4eb0ac",
		} {
			if got := processorName(host, boot); got != want || len(got) > MaxProcessorName {
				t.Errorf("%q is %q of %d bytes, want %q", host, got, len(got), want)
			}
		}
	})
}
