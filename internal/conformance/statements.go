package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed statements.txt
var statementsText string

// statement is one line of statements.txt.
type statement struct {
	id            string // S0-57
	tags          string // LM
	wording       string
	notApplicable string // why it cannot apply, "" if it can
}

// section is a document that statements come from.
type section struct {
	title      string
	statements []statement
}

var statementLine = regexp.MustCompile(`^(S\d-K?\d+) ([A-Z]+): (.+?)(?: ! (.+))?$`)

// readStatements parses the list. It returns an error if an id occurs twice.
func readStatements(text string) ([]section, error) {
	var all []section
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		title, isTitle := strings.CutPrefix(line, "## ")
		m := statementLine.FindStringSubmatch(line)
		switch {
		case isTitle:
			all = append(all, section{title: title})
		case line == "" || strings.HasPrefix(line, "#"):
		case m == nil || len(all) == 0 || seen[m[1]]:
			return nil, fmt.Errorf("not a statement, or one with an id that is used already: %q", line)
		default:
			s := statement{id: m[1], tags: m[2], wording: m[3], notApplicable: m[4]}
			if s.applies() != (s.notApplicable == "") {
				return nil, fmt.Errorf("%s: the tags %s and the reason %q not to apply contradict each other", s.id, s.tags, s.notApplicable)
			}
			seen[s.id] = true
			last := &all[len(all)-1]
			last.statements = append(last.statements, s)
		}
	}
	return all, nil
}

// applies reports whether a statement can be checked: it is not about C or Fortran only, and is not only advice or a permission.
func (s *statement) applies() bool {
	return !strings.ContainsAny(s.tags, "CF") && strings.ContainsAny(s.tags, "LMNTD")
}
