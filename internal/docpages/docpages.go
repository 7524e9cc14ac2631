// Package docpages reads the code blocks of Markdown pages, and types them as a reader would. It is used by tests only.
//
// The words after the language of a block say what it is; readers do not see them:
//
//	```sh needs=go             commands, and what they need (see Needs)
//	                           if they end with &, the next commands are typed when ibrun has started the job
//	```sh needs=go nodes=2     the same; each line is typed on a machine of its own: node0, node1
//	```text output             what the commands before it print on standard output
//	```text output=sorted      the same, in any order
//	```text output=like        the same, with other numbers
//	```text output=sample      what may be printed; it differs each time, so it is not compared
//	                           "..." in output stands for anything
//	```go file=main.go         a file that the reader writes
//	```go from=mpi/doc.go      lines of a file of the repository, which a reader may write too (file=)
//	```text synopsis           commands of ibrun with what stands for arguments
//	```text sample             a drawing, or something else that nothing checks
package docpages

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Needs are what commands may need, and so which step of CI types them.
var Needs = map[string]string{
	"go":         "only Go: make readme types them in a root directory that has Go and a shell, without a network",
	"checkout":   "Go and the checkout: make readme types them there",
	"ci":         "what a target of the Makefile has: the target types them",
	"ssh":        "hosts that are reached by ssh: make clusters",
	"slurm":      "Slurm: make clusters",
	"slurm-job":  "a shell in a Slurm job: make clusters",
	"soak":       "an hour: make pages, which the nightly job of CI runs",
	"guest":      "QEMU, for a guest with an RDMA device: make guests",
	"rdma":       "a machine with an RDMA device, as root: make guests types them in a guest",
	"bench":      "minutes, and an idle machine for good figures: make pages, which the nightly job of CI runs",
	"kubernetes": "Kubernetes, or what builds images: make kubernetes reads their manifests",
}

// Block is a code block of a page.
type Block struct {
	Page     string
	Line     int // the number of its first fence
	Language string
	Tags     map[string]string // a tag without a value has an empty one
	Text     string            // without the indentation of its fences
}

// String returns the place of the block.
func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Has reports whether the block has a tag.
func (b Block) Has(tag string) bool {
	_, ok := b.Tags[tag]
	return ok
}

// Blocks returns the code blocks of a page.
func Blocks(page, text string) (all []Block, err error) {
	var b *Block
	indent := ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		info, fence := strings.CutPrefix(trimmed, "```")
		switch {
		case fence && b == nil:
			indent = line[:strings.Index(line, "```")]
			b = &Block{Page: page, Line: i + 1, Tags: map[string]string{}}
			for j, word := range strings.Fields(info) {
				if name, value, _ := strings.Cut(word, "="); j == 0 {
					b.Language = word
				} else {
					b.Tags[name] = value
				}
			}
		case fence && trimmed == "```":
			all = append(all, *b)
			b = nil
		case b != nil:
			b.Text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if b != nil {
		return nil, fmt.Errorf("%s: the block does not end", b)
	}
	return all, nil
}

// Read returns the code blocks of a page in a file below root.
func Read(root, page string) ([]Block, error) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, err
	}
	return Blocks(page, string(text))
}

// outputs are the ways to compare output.
var outputs = []string{"", "sorted", "like", "sample"}

// Check says what is wrong with the tags of a block. Root is the repository.
func (b Block) Check(root string) error {
	kinds := 0
	for name := range b.Tags {
		switch name {
		case "needs", "output", "file", "synopsis", "sample":
			kinds++
		case "from":
			if !b.Has("file") {
				kinds++
			}
		case "nodes":
		default:
			return fmt.Errorf("%s: the tag %q is unknown; internal/docpages lists the tags", b, name)
		}
	}
	needs, output := b.Tags["needs"], b.Tags["output"]
	switch {
	case kinds != 1:
		return fmt.Errorf("%s: %d tags; write one after the language, such as: ```sh needs=go (internal/docpages lists them)", b, kinds)
	case b.Has("needs") && (b.Language != "sh" || Needs[needs] == ""):
		return fmt.Errorf("%s: commands are ```sh needs=NEED, and NEED is one of those of internal/docpages", b)
	case b.Has("nodes") && !b.Has("needs"):
		return fmt.Errorf("%s: only commands have nodes", b)
	case b.Has("output") && !slices.Contains(outputs, output):
		return fmt.Errorf("%s: output=%s is unknown", b, output)
	case b.Has("from"):
		return b.checkFrom(root)
	}
	return nil
}

// checkFrom compares the block with the file that it quotes. Indentation does not count.
func (b Block) checkFrom(root string) error {
	text, err := os.ReadFile(filepath.Join(root, b.Tags["from"]))
	if err != nil {
		return fmt.Errorf("%s: %w", b, err)
	}
	if !strings.Contains(flat(string(text)), flat(b.Text)) {
		return fmt.Errorf("%s: %s does not have these lines, one after the other", b, b.Tags["from"])
	}
	return nil
}

// flat returns the lines of a text without indentation, each after a line feed.
func flat(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		b.WriteString("\n" + strings.TrimSpace(line))
	}
	return b.String() + "\n"
}

var (
	number = regexp.MustCompile(`[0-9]+(?:[.][0-9]+)?`)
	blanks = regexp.MustCompile(`[ \t]+`)
)

// CompareOutput says how output differs from what the block says.
func (b Block) CompareOutput(output string) error {
	got, want := flat(output), flat(b.Text)
	switch b.Tags["output"] {
	case "sample":
		return nil
	case "sorted":
		got, want = sorted(got), sorted(want)
	case "like":
		for _, text := range []*string{&got, &want} {
			*text = blanks.ReplaceAllString(number.ReplaceAllString(*text, "N"), " ")
		}
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, ".*")
	if !regexp.MustCompile("(?s)^" + pattern + "$").MatchString(got) {
		return fmt.Errorf("%s: the commands print\n%s\nand the page says\n%s", b, output, b.Text)
	}
	return nil
}

func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
