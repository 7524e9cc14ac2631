package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	verbose := flag.Bool("v", false, "show what the tests print")
	page := flag.String("o", "docs/conformance.md", "where the page goes, below the module's root")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	output := io.Discard
	if *verbose {
		output = os.Stderr
	}
	root, err := moduleRoot(ctx)
	if err == nil {
		err = conform(ctx, root, *page, os.Stdout, output)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		stop()
		os.Exit(1)
	}
}

// moduleRoot returns the directory of the module that contains the working directory.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// conform runs everything below root and writes the page. It is an error if a statement does not pass.
func conform(ctx context.Context, root, page string, out, output io.Writer) error {
	statements, err := readStatements(statementsText)
	if err != nil {
		return err
	}
	suites, err := findSuites(root)
	if err != nil {
		return err
	}
	all, scopesOf := make([]results, len(nodeLayouts())), scopes{}
	for i, at := range nodeLayouts() {
		all[i] = results{}
		for _, s := range suites {
			if i > 0 && !s.nodes {
				continue // it would be the same run again
			}
			r, err := s.run(ctx, root, at, output, scopesOf)
			if err != nil {
				return err
			}
			all[i].add(r)
			if i > 0 {
				all[0].markUnfinished(r)
				all[i].markUnfinished(all[0].of(s.dir))
			}
			fmt.Fprintf(out, "%s, %s: %d tests and subtests\n", s.dir, at.name, len(r))
		}
	}
	verdicts, err := evaluate(statements, all, scopesOf)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, page), []byte(report(statements, verdicts)), 0o644); err != nil {
		return err
	}
	hold, apply := tally(statements, verdicts)
	for _, section := range statements {
		for _, s := range section.statements {
			if v := verdicts[s.id]; s.applies() && !v.holds {
				fmt.Fprintf(out, "%s: %s\n", s.id, v.why)
			}
		}
	}
	fmt.Fprintf(out, "%d of %d statements pass\n", hold, apply)
	if hold < apply {
		return fmt.Errorf("%d statements do not pass", apply-hold)
	}
	return nil
}
