package foreign

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
)

// Files that list programs, collected until all flags of the section are known.
const (
	keepAppFile    = "app"
	keepConfigFile = "configfile"
	keepMultiProg  = "multi-prog"
)

// section is one program with the flags before it, while it is translated.
type section struct {
	*translator
	flags  [][]Word // translated flags, each with its values
	kept   map[string]string
	keptAt map[string]Word // the flags in kept
	ranks  string          // the value of -n
}

// add adds one flag.
func (s *section) add(g *given, of Launcher) error {
	row, err := g.choose(of)
	if err != nil {
		return err
	}
	first := g.raw[0]
	if row == nil {
		s.flags = append(s.flags, g.raw)
		if g.name == "n" || g.name == "np" {
			s.ranks = strings.Join(g.values, "")
		}
		return nil
	}
	typed := first.typed()
	for _, w := range g.raw[1:] {
		typed += " " + w.Text
	}
	if row.keep != "" {
		s.kept[row.keep] = strings.Join(g.values, " ")
		s.keptAt[row.keep] = Word{Text: typed, At: first.At}
		return nil
	}
	m, err := row.translate(g.values)
	switch {
	case err != nil && row.To == "" && row.NoEffect == "":
		return fmt.Errorf("%s is a flag of %s that ibrun does not have: %w", first.typed(), row.Of, err)
	case err != nil:
		return fmt.Errorf("%s: %w", typed, err)
	case m.note != "":
		s.notes = append(s.notes, fmt.Sprintf("%s has no effect: %s", typed, m.note))
	}
	for _, text := range m.words {
		w := Word{Text: text, Typed: typed, At: first.At}
		if row.global {
			s.global = append(s.global, w)
			continue
		}
		s.flags = append(s.flags, []Word{w})
		if value, ok := strings.CutPrefix(text, "-n="); ok {
			s.ranks = value
		}
	}
	return nil
}

// finish adds the flags that follow from several others, and the program, or the programs of a file.
func (s *section) finish(program []Word, inFile bool) error {
	if err := s.finishNodes(); err != nil {
		return err
	}
	for _, kind := range []string{keepAppFile, keepConfigFile, keepMultiProg} {
		flag, ok := s.keptAt[kind]
		switch {
		case !ok:
			continue
		case inFile:
			return flag.Wrap(fmt.Errorf("%s: a file of programs cannot name another one", flag.Text))
		case kind == keepMultiProg:
			return s.addTasks(program)
		}
		return s.addFile(kind, program)
	}
	s.sections = append(s.sections, append(slices.Concat(s.flags...), program...))
	return nil
}

// finishNodes adds the flags that follow from those of torchrun about nodes.
func (s *section) finishNodes() error {
	for _, key := range []string{keepNodes, keepNodeRank, keepMasterAddress, keepMasterPort, keepEndpoint, keepBackend} {
		flag, ok := s.keptAt[key]
		if !ok {
			continue
		}
		texts, err := torchNodes(s.kept)
		if err != nil {
			return flag.Wrap(err)
		}
		for _, text := range texts {
			s.flags = append(s.flags, []Word{{Text: text, Typed: flag.Text, At: flag.At}})
		}
		return nil
	}
	return nil
}

// flagName returns the name of a flag without dashes and value.
func (w Word) flagName() string {
	name, _, _ := strings.Cut(strings.TrimLeft(w.Text, "-"), "=")
	return name
}

// isOfProgram reports whether a flag is about one program. All others are about the job.
func isOfProgram(flag []Word) bool {
	return slices.Contains([]string{"n", "np", "wdir", "x", "env"}, flag[0].flagName())
}

// addFile adds the programs of a file for --app or -configfile. The flags before the file are about the job.
func (s *section) addFile(kind string, program []Word) error {
	flag, name := s.keptAt[kind], s.kept[kind]
	if len(program) > 0 {
		return fmt.Errorf("%s: the file names the programs: leave out %s", flag.Text, program[0].Text)
	}
	if i := slices.IndexFunc(s.flags, isOfProgram); i >= 0 {
		return fmt.Errorf("%s: the file says what each program needs: write %s into it", flag.Text, s.flags[i][0].typed())
	}
	text, err := inputfile.Read(name, maxFileSize)
	if err != nil {
		return fmt.Errorf("%s: %w", flag.Text, err)
	}
	programs, err := parsePrograms(name, text, kind == keepConfigFile)
	if err != nil {
		return err
	}
	first := len(s.sections)
	for _, words := range programs {
		if err := s.section(words, true); err != nil {
			return err
		}
	}
	s.sections[first] = append(slices.Concat(s.flags...), s.sections[first]...)
	return nil
}

// addTasks adds the programs of a file for --multi-prog. Words after the file are arguments of every program.
func (s *section) addTasks(program []Word) error {
	flag := s.keptAt[keepMultiProg]
	if len(program) > 0 && program[0].Text == "--" {
		program = program[1:]
	}
	if len(program) == 0 {
		return fmt.Errorf("%s: the file is missing: %[1]s FILE", flag.Text)
	}
	name := program[0].Text
	text, err := inputfile.Read(name, maxFileSize)
	if err != nil {
		return fmt.Errorf("%s %s: %w", flag.Text, name, err)
	}
	lines, err := parseTasks(name, text)
	if err != nil {
		return err
	}
	programs, err := assignTasks(name, lines, s.ranks)
	if err != nil {
		return err
	}
	var ofProgram, ofJob []Word
	for _, f := range s.flags {
		switch name := f[0].flagName(); {
		case name == "n" || name == "np": // each program has its own
		case isOfProgram(f):
			ofProgram = append(ofProgram, f...)
		default:
			ofJob = append(ofJob, f...)
		}
	}
	for i, p := range programs {
		count := []Word{{Text: fmt.Sprintf("-n=%d", p.ranks), Typed: flag.Text, At: p.words[0].At}}
		if i == 0 {
			count = append(ofJob, count...)
		}
		s.sections = append(s.sections, slices.Concat(count, ofProgram, p.words, program[1:]))
	}
	return nil
}
