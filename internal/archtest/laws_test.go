package archtest

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

//go:embed exceptions.txt
var exceptionsText string

//go:embed proofs.txt
var proofsText string

// law is one rule and the check that finds where it is broken.
type law struct {
	number int
	name   string
	check  func(*tree) []breach
}

// breach is one place where a law is broken.
type breach struct {
	at   string // file:line
	what string // what is wrong there
	mend string // what to do about it
	// key names the place for exceptions.txt: "path/file.go" or "path/file.go:Func". It is empty where the law
	// knows no exceptions.
	key string
}

func (b breach) String() string { return fmt.Sprintf("%s: %s\n\tto mend: %s", b.at, b.what, b.mend) }

var laws = []law{
	{1, "floors", func(t *tree) []breach { return checkFloors(t, floors) }},
	{2, "unsafe and assembly", checkUnsafe},
	{3, "length", checkLength},
	{4, "documentation", checkDocs},
	{5, "decoders are fuzzed", func(t *tree) []breach { return checkDecoders(t, proofsText) }},
	{6, "hot calls do not allocate", func(t *tree) []breach { return checkHot(t, proofsText) }},
	{7, "transports pass fabrictest", checkTransports},
	{8, "tidiness", checkTidy},
}

func TestLaws(t *testing.T) {
	src, err := load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := parseExceptions(exceptionsText)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, l := range laws {
		broken := slices.DeleteFunc(l.check(src), func(b breach) bool {
			used[b.key] = true
			return allowed[b.key]
		})
		t.Run(fmt.Sprintf("%d %s", l.number, l.name), func(t *testing.T) {
			for _, b := range broken {
				t.Errorf("law %d, %s\n%s", l.number, l.name, b)
			}
		})
	}
	for key := range allowed {
		if !used[key] {
			t.Errorf("internal/archtest/exceptions.txt: %s breaks no law any more\n\tto mend: delete the line", key)
		}
	}
}

// parseExceptions reads lines of "place reason"; the reason is not optional.
func parseExceptions(text string) (map[string]bool, error) {
	allowed := map[string]bool{}
	for line := range lines(text) {
		place, reason, _ := strings.Cut(line, " ")
		if len(strings.Fields(reason)) < 3 {
			return nil, fmt.Errorf("internal/archtest/exceptions.txt: %s has no reason", place)
		}
		allowed[place] = true
	}
	return allowed, nil
}

// lines yields the lines of a table, without comments and empty lines.
func lines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" && !yield(line) {
				return
			}
		}
	}
}
