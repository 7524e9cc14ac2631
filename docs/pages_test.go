package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// page is a Markdown file of the repository.
type page struct {
	name  string // relative to the top of the repository
	lines []string
	code  []bool // by line: it is in a code block, or is one of its fences
}

// top is the repository.
var top = os.DirFS("..")

// pages returns all pages. Those below testdata are input of tests.
func pages(t *testing.T) (all []page) {
	t.Helper()
	err := fs.WalkDir(top, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "dist" || d.Name() == ".git"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(top, name)
		all = append(all, parsePage(name, string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

func parsePage(name, text string) page {
	p := page{name: name, lines: strings.Split(text, "\n")}
	inside := false
	for _, line := range p.lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		p.code = append(p.code, inside || fence)
		inside = inside != fence
	}
	return p
}

var (
	// pageLink matches the target of a link or picture.
	pageLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`^#{1,6} +(.*?)\s*$`)
	named    = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
	linkText = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	codeText = regexp.MustCompile("`[^`]*`")
)

// anchors returns what a link to a part of the page may say after #, as GitHub computes it from the headings.
func (p page) anchors() (list []string) {
	for i, line := range p.lines {
		if p.code[i] {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			list = append(list, m[1])
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		base := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, linkText.ReplaceAllString(m[1], "$1"))
		anchor := base
		for n := 1; slices.Contains(list, anchor); n++ {
			anchor = fmt.Sprintf("%s-%d", base, n)
		}
		list = append(list, anchor)
	}
	return list
}

// deadLinks returns a message for each link of a page to a file or a part of a page that does not exist. Addresses of the web are
// not looked at.
func deadLinks(p page, files fs.FS) (dead []string, checked int) {
	for i, line := range p.lines {
		if p.code[i] {
			continue
		}
		for _, m := range pageLink.FindAllStringSubmatch(codeText.ReplaceAllString(line, ""), -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := p
			if file != "" {
				target = page{name: path.Join(path.Dir(p.name), file)}
				if _, err := fs.Stat(files, target.name); err != nil {
					dead = append(dead, fmt.Sprintf("%s:%d: %s does not exist", p.name, i+1, target.name))
					continue
				}
			}
			if anchor == "" {
				continue
			}
			if file != "" {
				text, _ := fs.ReadFile(files, target.name) // of a folder: no text, and no anchors
				target = parsePage(target.name, string(text))
			}
			if !slices.Contains(target.anchors(), anchor) {
				dead = append(dead, fmt.Sprintf("%s:%d: %s has no heading #%s", p.name, i+1, target.name, anchor))
			}
		}
	}
	return dead, checked
}

// TestLinks checks that every relative link leads to a file, and every anchor to a heading.
func TestLinks(t *testing.T) {
	all := 0
	for _, p := range pages(t) {
		dead, checked := deadLinks(p, top)
		all += checked
		for _, d := range dead {
			t.Error(d)
		}
	}
	if all < 100 {
		t.Errorf("only %d links were found", all)
	}
}

// TestDeadLinksAreFound shows what is a dead link, and what GitHub calls a heading.
func TestDeadLinksAreFound(t *testing.T) {
	p := parsePage("docs/a.md", strings.Join([]string{
		"# `ibrun top`, and [more](b.md)", "## Twice", "## Twice", "```", "# not a heading", "[x](gone.md)", "```",
		"[1](#ibrun-top-and-more) [2](#twice)",
		"[3](#twice-1) [4](https://example.com/#x) [5](b.md#part) [6](../README.md) `[7](gone.md)`",
		"[8](#twice-2) [9](gone.md) [10](b.md#gone) [11](#not-a-heading)"}, "\n"))
	dir := t.TempDir()
	for name, text := range map[string]string{"docs/b.md": "## Part", "README.md": ""} {
		if err := os.MkdirAll(path.Join(dir, path.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dead, checked := deadLinks(p, os.DirFS(dir))
	want := []string{"docs/a.md:10: docs/a.md has no heading #twice-2", "docs/a.md:10: docs/gone.md does not exist",
		"docs/a.md:10: docs/b.md has no heading #gone", "docs/a.md:10: docs/a.md has no heading #not-a-heading"}
	if checked != 10 || !slices.Equal(dead, want) {
		t.Errorf("%d links, dead %q; want 10, dead %q", checked, dead, want)
	}
}

// TestPagesAreListed: docs/README.md leads to every page below docs.
func TestPagesAreListed(t *testing.T) {
	list, err := fs.ReadFile(top, "docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		name, inside := strings.CutPrefix(p.name, "docs/")
		if inside && name != "README.md" && !strings.Contains(string(list), "]("+strings.TrimSuffix(name, "/README.md")) {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// TestLength: pages are short enough to be read. Rows of tables do not count.
func TestLength(t *testing.T) {
	for _, p := range pages(t) {
		limit, lines := 300, 0
		if p.name == "README.md" {
			limit = 150
		}
		for _, line := range p.lines {
			if !strings.HasPrefix(line, "|") {
				lines++
			}
		}
		if lines > limit+1 { // the last line feed is followed by an empty line
			t.Errorf("%s has %d lines, want at most %d", p.name, lines-1, limit)
		}
	}
}
