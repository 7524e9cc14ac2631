package main

import (
	"fmt"
	"strings"
)

// tally counts the statements that apply, and those of them that hold.
func tally(statements []section, verdicts map[string]verdict) (hold, apply int) {
	for _, section := range statements {
		for _, s := range section.statements {
			if s.applies() {
				apply++
				if verdicts[s.id].holds {
					hold++
				}
			}
		}
	}
	return hold, apply
}

const reportHead = `# Conformance

What go run ./internal/conformance has found, which wrote this page. The wording is ours; the standard's is what counts. Tags:
L one process is enough, M several ranks, N several nodes, T something changes while it runs, D follows from others, C and F
of the bindings for C and Fortran, A advice, P a permission, K from the standard beyond the documents at hand. A statement
passes if all tests that carry its id have run, with ranks on one node and on several, and passed, and if with a tag M, N or T
one of them had several ranks, had several nodes, or changed something, as its tag says. Nodes of ranks that are no processes are
emulated, over TCP. The column of worlds tells the largest.
`

// report writes the page.
func report(statements []section, verdicts map[string]verdict) string {
	var b strings.Builder
	hold, apply := tally(statements, verdicts)
	fmt.Fprintf(&b, "%s\n%d of %d statements pass.\n", reportHead, hold, apply)
	for _, section := range statements {
		fmt.Fprintf(&b, "\n## %s\n\n| id | tags | statement | result | tests | worlds |\n|---|---|---|---|---|---|\n", section.title)
		for _, s := range section.statements {
			v := verdicts[s.id]
			result := "pass"
			switch {
			case !s.applies():
				result = "does not apply: " + cell(s.never)
			case !v.holds:
				result = "**does not pass**: " + cell(v.why)
			}
			tests := ""
			if len(v.tests) > 0 {
				tests = "`" + strings.Join(v.tests, "`, `") + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", s.id, s.tags, cell(s.wording), result, tests,
				cell(v.scope.String()))
		}
	}
	return b.String()
}

// cell is text that a table's cell can hold.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "\n", " ").Replace(text)
}
