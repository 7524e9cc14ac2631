// Package inputfile reads files that users write, and reports errors at positions in them.
package inputfile

import (
	"fmt"
	"io"
	"os"
)

// Read returns the text of a file of at most limit bytes, a number of MiB: the user may name another file by mistake.
func Read(name string, limit int) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > limit:
		return "", fmt.Errorf("%s is larger than %d MiB", name, limit>>20)
	}
	return string(text), nil
}

// SyntaxError is an error at a position of a file, of a variable or of an option.
type SyntaxError struct {
	Source       string // the name of the file or variable; empty: the caller names it
	Line, Column int    // from 1; the column counts bytes. Line 0: the text has no lines
	Message      string
}

// Error returns FILE:LINE:COLUMN: MESSAGE, or for a text without lines VARIABLE: column COLUMN: MESSAGE.
func (e *SyntaxError) Error() string {
	switch {
	case e.Line > 0:
		return fmt.Sprintf("%s:%d:%d: %s", e.Source, e.Line, e.Column, e.Message)
	case e.Source != "":
		return fmt.Sprintf("%s: column %d: %s", e.Source, e.Column, e.Message)
	}
	return fmt.Sprintf("column %d: %s", e.Column, e.Message)
}
