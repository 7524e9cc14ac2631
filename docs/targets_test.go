package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTargets: the targets that .ci/run makes exist and have a time limit. Of each target of the nightly the gate makes all, or a
// sample, or CONTRIBUTING.md says why it does not.
func TestTargets(t *testing.T) {
	texts := map[string]string{}
	for _, name := range []string{".ci/run", "Makefile", "CONTRIBUTING.md"} {
		text, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	list := func(name string) []string {
		m := regexp.MustCompile(`(?m)^` + name + `=\(([^)]*)\)$`).FindStringSubmatch(texts[".ci/run"])
		if m == nil {
			t.Fatalf(".ci/run has no list %s", name)
		}
		return strings.Fields(m[1])
	}
	gate, nightly := list("gate"), list("nightly")
	for _, target := range slices.Concat(gate, nightly) {
		if !strings.Contains(texts["Makefile"], "\n"+target+": ") {
			t.Errorf("%s: the Makefile has no such target", target)
		}
		if !strings.Contains(texts[".ci/run"], "["+target+"]=") {
			t.Errorf("%s: .ci/run has no time limit for it", target)
		}
	}
	_, left, _ := strings.Cut(texts["CONTRIBUTING.md"], "It leaves to the nightly:\n")
	left, _, _ = strings.Cut(left, "\n\nIn both,")
	for _, target := range nightly {
		if !slices.Contains(gate, target) && !strings.Contains(left, "`make "+target+"`") {
			t.Errorf("%s: it is not in the gate, and CONTRIBUTING.md does not say why", target)
		}
	}
	for _, target := range gate {
		whole := strings.TrimSuffix(target, "-gate")
		if !slices.Contains(nightly, target) && !slices.Contains(nightly, whole) {
			t.Errorf("%s: the nightly does not make %s", target, whole)
		}
	}
}
