package foreign

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Word is one word of a translated command line.
type Word struct {
	// Text is the word. A flag that was translated has its value after "=".
	Text string
	// Typed is what the user wrote instead, for messages. Empty: the same.
	Typed string
	// At is where the word stands, FILE:LINE:COLUMN. Empty: on the command line.
	At string
}

// typed returns what the user wrote.
func (w Word) typed() string { return cmp.Or(w.Typed, w.Text) }

// Wrap adds the place of the word to an error.
func (w Word) Wrap(err error) error {
	if w.At == "" {
		return err
	}
	return fmt.Errorf("%s: %w", w.At, err)
}

// Command is a translated command line.
type Command struct {
	// Words are flags of ibrun and programs. Programs are separated by ":".
	Words []Word
	// Notes are the reasons why flags that were accepted have no effect.
	Notes []string
}

// Args returns the words as a command line for ibrun.
func (c *Command) Args() []string {
	args := make([]string, len(c.Words))
	for i, w := range c.Words {
		args[i] = w.Text
	}
	return args
}

// Native reports whether ibrun has a flag with this name, and whether it needs a value.
type Native func(name string) (value, known bool)

// translator translates one command line.
type translator struct {
	native   Native
	rows     map[string][]*Spelling
	sections [][]Word // of each program: its flags and its words
	global   []Word   // flags for all programs
	notes    []string
}

// Translate translates the arguments that follow ibrun's name. Flags that are neither ibrun's nor in the table remain, and
// so does everything after them.
func Translate(args []string, native Native) (*Command, error) {
	t := &translator{native: native, rows: allRows()}
	words := make([]Word, len(args))
	for i, arg := range args {
		words[i].Text = arg
	}
	for {
		end := slices.IndexFunc(words, isColon)
		if end < 0 {
			break
		}
		if err := t.section(words[:end], false); err != nil {
			return nil, err
		}
		words = words[end+1:]
	}
	if err := t.section(words, false); err != nil {
		return nil, err
	}
	c := &Command{Notes: t.notes}
	for i, s := range t.sections {
		if i > 0 {
			c.Words = append(c.Words, Word{Text: ":"})
		}
		c.Words = append(append(c.Words, t.global...), s...)
	}
	return c, nil
}

// isColon reports whether the word separates programs.
func isColon(w Word) bool { return w.Text == ":" }

// section translates one program with the flags before it. inFile means that the words come from a file.
func (t *translator) section(words []Word, inFile bool) error {
	flags, rest, err := t.read(words)
	if err != nil {
		return err
	}
	s := &section{translator: t, kept: map[string]string{}, keptAt: map[string]Word{}}
	of := launchersOf(flags)
	for i := range flags {
		if err := s.add(&flags[i], of); err != nil {
			return flags[i].raw[0].Wrap(err)
		}
	}
	if of == Torchrun && len(rest) > 0 && strings.HasSuffix(rest[0].Text, ".py") && startsPython(flags) {
		return rest[0].Wrap(fmt.Errorf("torchrun starts Python itself, and ibrun does not: write python3 %s", rest[0].Text))
	}
	return s.finish(rest, inFile)
}

// startsPython reports whether torchrun would start the program with Python.
func startsPython(flags []given) bool {
	return !slices.ContainsFunc(flags, func(g given) bool { return strings.ReplaceAll(g.name, "_", "-") == "no-python" })
}

// read reads the flags at the beginning of words and returns the words after them. It stops at an unknown flag.
func (t *translator) read(words []Word) (flags []given, rest []Word, err error) {
	for len(words) > 0 && len(words[0].Text) > 1 && words[0].Text[0] == '-' && words[0].Text != "--" {
		g, err := t.flag(words, launchersOf(flags))
		if err != nil {
			return nil, nil, words[0].Wrap(err)
		}
		if g == nil {
			break
		}
		flags, words = append(flags, *g), words[len(g.raw):]
	}
	return flags, words, nil
}
