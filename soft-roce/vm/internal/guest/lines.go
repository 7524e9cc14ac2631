package guest

import (
	"bytes"
	"io"
)

// prefixWriter writes a prefix before each line. It writes whole lines, so that lines of several nodes do not mix.
type prefixWriter struct {
	to     io.Writer
	prefix string
	part   []byte // an incomplete line, with its prefix
}

// maxLine is the number of bytes of an incomplete line that are buffered.
const maxLine = 64 << 10

func (l *prefixWriter) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if len(l.part) == 0 {
			l.part = append(l.part, l.prefix...)
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

// flush writes the buffered incomplete line.
func (l *prefixWriter) flush() error {
	part := l.part
	l.part = l.part[:0]
	if len(part) == 0 {
		return nil
	}
	_, err := l.to.Write(part)
	return err
}
