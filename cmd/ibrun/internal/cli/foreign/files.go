package foreign

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
)

// Bounds of a file, in case the user names another file by mistake.
const (
	maxFileSize = 16 << 20
	maxPrograms = 1 << 16
	maxTasks    = 1 << 20 // the most ranks of a job
)

// lineReader reads the words of one line of a file.
type lineReader struct {
	file   string
	line   int
	text   string
	offset int
}

func (r *lineReader) errorAt(offset int, format string, args ...any) error {
	return &inputfile.SyntaxError{Source: r.file, Line: r.line, Column: offset + 1, Message: fmt.Sprintf(format, args...)}
}

// word returns a word that begins at this offset.
func (r *lineReader) word(text string, offset int) Word {
	return Word{Text: text, At: fmt.Sprintf("%s:%d:%d", r.file, r.line, offset+1)}
}

const blanks = " \t\v\f\r"

// skipBlanks skips blanks and reports whether something follows.
func (r *lineReader) skipBlanks() bool {
	rest := strings.TrimLeft(r.text[r.offset:], blanks)
	r.offset = len(r.text) - len(rest)
	return rest != ""
}

// plain returns the next word up to a blank.
func (r *lineReader) plain() Word {
	begin := r.offset
	end := strings.IndexAny(r.text[begin:], blanks)
	if end < 0 {
		end = len(r.text) - begin
	}
	r.offset = begin + end
	return r.word(r.text[begin:r.offset], begin)
}

// parsePrograms parses the file of --app (Open MPI), or of -configfile (MPICH). Each line has the words of a command line:
// flags, a program and its arguments. Words are separated by blanks, and quotes are ordinary characters, as for both
// launchers. The rest of a line from # is a comment, for Open MPI also from //. In MPICH's file ":" separates programs of
// one line. The error is a [*inputfile.SyntaxError].
func parsePrograms(name, text string, ofMPICH bool) (programs [][]Word, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		r := &lineReader{file: name, line: number, text: strings.TrimRight(line, "\r\n")}
		words, err := r.programLine(ofMPICH)
		if err != nil {
			return nil, err
		}
		var program []Word
		for _, w := range words {
			if !isColon(w) {
				program = append(program, w)
				continue
			}
			if len(program) > 0 {
				programs = append(programs, program)
			}
			program = nil
		}
		if len(program) > 0 {
			programs = append(programs, program)
		}
		if len(programs) > maxPrograms {
			return nil, r.errorAt(0, "there are more than %d programs", maxPrograms)
		}
	}
	if len(programs) == 0 {
		return nil, &inputfile.SyntaxError{Source: name, Line: max(number, 1), Column: 1, Message: "the file lists no program"}
	}
	return programs, nil
}

// programLine returns the words of a line without its comment.
func (r *lineReader) programLine(ofMPICH bool) (words []Word, err error) {
	for r.skipBlanks() {
		begin := r.offset
		w := r.plain()
		comment := strings.IndexByte(w.Text, '#')
		if slashes := strings.Index(w.Text, "//"); !ofMPICH && slashes >= 0 && (comment < 0 || slashes < comment) {
			comment = slashes
		}
		switch {
		case comment == 0:
			return words, nil
		case comment > 0:
			return nil, r.errorAt(begin+comment, "a comment begins within a word: put a blank before it; an argument "+
				"cannot contain %q",
				w.Text[comment:comment+1])
		case isColon(w) && !ofMPICH:
			return nil, r.errorAt(begin, `":" cannot be an argument: it separates programs`)
		}
		words = append(words, w)
	}
	return words, nil
}

// taskLine is a line of the file of --multi-prog: these ranks run this program.
type taskLine struct {
	ranks [][2]int // first and last rank; nil: all that no other line names
	words []Word   // the program and its arguments
	at    *lineReader
}

// parseTasks parses the file of srun --multi-prog. A line has ranks, a program and its arguments: 0-2,5 ./app -x. Ranks *
// are all others. Text in '...' is one word. Lines that begin with # are comments; a backslash at the end continues a line.
// The error is a [*inputfile.SyntaxError].
func parseTasks(name, text string) (lines []taskLine, err error) {
	number := 0
	var current *taskLine
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		r := &lineReader{file: name, line: number, text: line}
		continued := strings.HasSuffix(line, `\`)
		r.text = strings.TrimSuffix(r.text, `\`)
		switch {
		case current == nil && (!r.skipBlanks() || r.text[r.offset] == '#'):
			continue
		case current == nil:
			lines = append(lines, taskLine{at: r})
			current = &lines[len(lines)-1]
			if current.ranks, err = r.taskRanks(); err != nil {
				return nil, err
			}
		}
		if err := r.taskWords(current); err != nil {
			return nil, err
		}
		if continued {
			continue
		}
		if len(current.words) == 0 {
			return nil, r.errorAt(len(r.text), "want a program after the ranks")
		}
		current = nil
		if len(lines) > maxPrograms {
			return nil, r.errorAt(0, "there are more than %d lines", maxPrograms)
		}
	}
	switch {
	case current != nil:
		return nil, &inputfile.SyntaxError{Source: name, Line: number, Column: 1,
			Message: `the file ends after a backslash: want the rest of the line`}
	case len(lines) == 0:
		return nil, &inputfile.SyntaxError{Source: name, Line: max(number, 1), Column: 1, Message: "the file lists no program"}
	}
	return lines, nil
}

// taskRanks parses the ranks at the beginning of a line: 0,3-5 or *.
func (r *lineReader) taskRanks() (ranks [][2]int, err error) {
	begin := r.offset
	w := r.plain()
	if w.Text == "*" {
		return nil, nil
	}
	for part := range strings.SplitSeq(w.Text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, errLow := rankNumber(first)
		high, errHigh := rankNumber(last)
		switch {
		case errors.Join(errLow, errHigh) != nil:
			return nil, r.errorAt(begin, "%q is not a rank, a range such as 0-3, or *", part)
		case low > high:
			return nil, r.errorAt(begin, "the range %s goes backwards", part)
		}
		ranks = append(ranks, [2]int{low, high})
		begin += len(part) + 1
	}
	return ranks, nil
}

func rankNumber(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 20)
	return int(n), err
}

// taskWords adds the words of a line to a task.
func (r *lineReader) taskWords(t *taskLine) error {
	for r.skipBlanks() {
		begin := r.offset
		var b strings.Builder
		for r.offset < len(r.text) && !strings.ContainsRune(blanks, rune(r.text[r.offset])) {
			if r.text[r.offset] != '\'' {
				b.WriteByte(r.text[r.offset])
				r.offset++
				continue
			}
			end := strings.IndexByte(r.text[r.offset+1:], '\'')
			if end < 0 {
				return r.errorAt(r.offset, "the quote is not closed")
			}
			b.WriteString(r.text[r.offset+1 : r.offset+1+end])
			r.offset += end + 2
		}
		w := r.word(b.String(), begin)
		if isColon(w) {
			return r.errorAt(begin, `":" cannot be an argument: it separates programs`)
		}
		t.words = append(t.words, w)
	}
	return nil
}
