package docs

import (
	"os"
	"path/filepath"
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

// TestSamples: the tests that the gate runs of those that need more than Go exist.
func TestSamples(t *testing.T) {
	text, err := os.ReadFile("../.ci/lib")
	if err != nil {
		t.Fatal(err)
	}
	for name, dirs := range map[string][]string{
		"gate_launchers": {"cmd/ibrun"},
		"gate_clusters":  {"internal/clustertest"},
		"gate_live":      strings.Fields(between(t, string(text), "gate_live_packages=(", ")")),
	} {
		declared := ""
		for _, dir := range dirs {
			files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: no tests in %s: %v", name, dir, err)
			}
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				declared += string(source)
			}
		}
		prefix, rest, _ := strings.Cut(between(t, string(text), name+"='^", ")$'"), "(")
		for test := range strings.SplitSeq(rest, "|") {
			if !strings.Contains(declared, "\nfunc "+prefix+test+"(") {
				t.Errorf("%s: there is no %s%s in %s", name, prefix, test, dirs)
			}
		}
	}
}

// between returns what is between two texts.
func between(t *testing.T, text, before, after string) string {
	t.Helper()
	_, text, found := strings.Cut(text, before)
	text, _, ended := strings.Cut(text, after)
	if !found || !ended {
		t.Fatalf(".ci/lib has no %q", before)
	}
	return text
}
