package docpages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Typing is the commands of one page, for one shell.
type Typing struct {
	blocks []Block
	typed  []int  // indices of the blocks that are typed
	dir    string // where the shell finds the blocks, and leaves their output
}

// NewTyping prepares to type those blocks of a page that need one of several things, and to write the files between them. Dir
// gets the blocks. It returns nil if the page has no such commands.
func NewTyping(blocks []Block, dir string, needs ...string) (*Typing, error) {
	t := &Typing{blocks: blocks, dir: dir}
	commands := false
	for i, b := range blocks {
		for _, need := range needs {
			if b.Tags["needs"] == need {
				t.typed = append(t.typed, i)
				commands = true
			}
		}
		if b.Has("file") {
			t.typed = append(t.typed, i)
		}
	}
	if !commands {
		return nil, nil
	}
	for _, i := range t.typed {
		if err := os.WriteFile(t.file(i, "block"), []byte(t.text(i)), 0o644); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Typing) file(i int, what string) string { return filepath.Join(t.dir, fmt.Sprint(i)+"."+what) }

// text returns the commands that a shell executes for a block.
func (t *Typing) text(i int) string {
	b := t.blocks[i]
	switch {
	case b.Has("file"):
		return "cat >" + b.Tags["file"] + " <<'END OF FILE'\n" + b.Text + "END OF FILE\n"
	case b.Has("nodes"):
		var s, pids strings.Builder
		for n, line := range strings.Split(strings.TrimSpace(b.Text), "\n") {
			fmt.Fprintf(&s, "%s &\nnode%d=$!\n", line, n)
			fmt.Fprintf(&pids, "wait $node%d\n", n)
		}
		return s.String() + pids.String()
	case strings.HasSuffix(b.Text, " &\n"): // the next commands need the job, which starts in the background
		return b.Text + "until ibrun top --once >/dev/null 2>&1; do kill -0 $!; sleep 0.1; done\n"
	}
	return b.Text
}

// Script returns the script for sh. Dir is where the shell sees the directory of NewTyping. One shell executes the commands of
// all blocks, so its working directory and variables stay. The first command that fails ends it.
func (t *Typing) Script(dir string) string {
	var s strings.Builder
	s.WriteString("set -e\n")
	for _, i := range t.typed {
		fmt.Fprintf(&s, "echo %d >%s/at\n. %s/%d.block >%s/%d.out 2>%s/%d.err\n", i, dir, dir, i, dir, i, dir, i)
	}
	fmt.Fprintf(&s, "echo end >%s/at\n", dir)
	return s.String()
}

// Result compares the standard output with what the page says, after the script has been executed.
func (t *Typing) Result() error {
	at, err := os.ReadFile(filepath.Join(t.dir, "at"))
	if err != nil {
		return fmt.Errorf("%s: the shell did not begin: %w", t.blocks[0].Page, err)
	}
	if i, err := strconv.Atoi(strings.TrimSpace(string(at))); err == nil {
		out, _ := os.ReadFile(t.file(i, "out")) // a file that was not opened is empty
		messages, _ := os.ReadFile(t.file(i, "err"))
		return fmt.Errorf("%s failed:\n%s\n%s%s", t.blocks[i], t.blocks[i].Text, out, messages)
	}
	var all []error
	for _, i := range t.typed {
		if i+1 == len(t.blocks) || !t.blocks[i+1].Has("output") {
			continue
		}
		out, err := os.ReadFile(t.file(i, "out"))
		if err == nil {
			err = t.blocks[i+1].CompareOutput(string(out))
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// Commands returns how many blocks of commands are typed.
func (t *Typing) Commands() (n int) {
	for _, i := range t.typed {
		if t.blocks[i].Has("needs") {
			n++
		}
	}
	return n
}
