package guest

import (
	"bytes"
	"io"
)

// lines puts a mark before each line, and writes whole lines, so that those of several nodes do not mix.
type lines struct {
	to   io.Writer
	mark string
	part []byte // the beginning of a line, with its mark
}

// maxLine is how much of a line is held back until its end has come.
const maxLine = 64 << 10

func (l *lines) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if len(l.part) == 0 {
			l.part = append(l.part, l.mark...)
		}
		l.part = append(l.part, line...)
		if line[len(line)-1] == '\n' || len(l.part) > maxLine {
			if err := l.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(b), nil
}

// flush writes what is left of a line without an end.
func (l *lines) flush() error {
	part := l.part
	l.part = l.part[:0]
	if len(part) == 0 {
		return nil
	}
	_, err := l.to.Write(part)
	return err
}
