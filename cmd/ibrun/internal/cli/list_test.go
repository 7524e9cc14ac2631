package cli

import (
	stdflag "flag"
	"io"
	"strings"
	"testing"
)

// TestList: lists that are given several times are joined, by either name of the flag. The first one replaces the default.
func TestList(t *testing.T) {
	for line, want := range map[string]string{
		"": "a 2", "--word b": "b 2", "--word b,c --word=d": "b,c,d 2", "--size 4 --sizes 8-16 --size 1": "a 4,8-16,1",
	} {
		var sizes Ranges
		words, f := "a", stdflag.NewFlagSet("", stdflag.ContinueOnError)
		f.SetOutput(io.Discard)
		numbers := NumberList(&sizes)
		f.Var(WordList(&words), "word", "")
		f.Var(numbers, "size", "")
		f.Var(numbers, "sizes", "")
		if err := f.Set("sizes", "2"); err != nil {
			t.Fatal(err)
		}
		numbers.MakeDefault()
		if err := f.Parse(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		if got := words + " " + sizes.String(); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}
