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

// rule is one rule of the architecture. Its check returns the places that violate it.
type rule struct {
	number int
	name   string
	check  func(*tree) []violation
}

// violation is one place that violates a rule.
type violation struct {
	pos     string // file:line, or the folder of a package
	problem string // what is wrong there
	fix     string // what to do about it
	// key names the place as exceptions.txt does: "path/file.go" or "path/file.go:Func". It is empty if the rule has no
	// exceptions.
	key string
}

func (v violation) String() string { return fmt.Sprintf("%s: %s\n\tfix: %s", v.pos, v.problem, v.fix) }

var rules = []rule{
	{1, "layers", func(t *tree) []violation { return append(checkLayers(t, layers), checkPolicyNames(t, layers)...) }},
	{2, "unsafe and assembly", checkUnsafe},
	{3, "length", checkLength},
	{4, "documentation", checkDocs},
	{5, "decoders are fuzzed", func(t *tree) []violation { return checkDecoders(t, proofsText) }},
	{6, "hot calls do not allocate", func(t *tree) []violation { return checkHot(t, proofsText) }},
	{7, "transports pass fabrictest", checkTransports},
	{8, "style", checkStyle},
	{9, "tests wait for conditions", func(t *tree) []violation { return checkWaits(t, waitsText) }},
	{10, "tests draw the same numbers in each run", checkSeeds},
	{11, "ibrun prints no control characters", checkPrinting},
	{12, "sizes of types", func(t *tree) []violation { return checkSizes(t, sizesText) }},
	{13, "arrows between files", checkLarge},
	{14, "small packages", checkOwners},
}

// TestArchitecture checks all rules on the whole repository.
func TestArchitecture(t *testing.T) {
	src, err := load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		src.logf = t.Logf
	}
	exceptions, err := parseExceptions(exceptionsText)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, r := range rules {
		violations := slices.DeleteFunc(r.check(src), func(v violation) bool {
			used[v.key] = true
			return exceptions[v.key]
		})
		t.Run(fmt.Sprintf("%d %s", r.number, r.name), func(t *testing.T) {
			for _, v := range violations {
				t.Errorf("rule %d, %s (see internal/archtest/doc.go)\n%s", r.number, r.name, v)
			}
		})
	}
	for key := range exceptions {
		if !used[key] {
			t.Errorf("internal/archtest/exceptions.txt: %s violates no rule any more\n\tfix: delete the line", key)
		}
	}
}

// parseExceptions reads lines of the form "place reason". The reason is required. It returns the set of places.
func parseExceptions(text string) (map[string]bool, error) {
	places := map[string]bool{}
	for line := range lines(text) {
		place, reason, _ := strings.Cut(line, " ")
		if len(strings.Fields(reason)) < 3 {
			return nil, fmt.Errorf("internal/archtest/exceptions.txt: %s has no reason; write it after the place", place)
		}
		places[place] = true
	}
	return places, nil
}

// lines yields the lines of a table without comments and empty lines.
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
