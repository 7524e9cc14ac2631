// Package printable makes text of other programs safe to print: what ranks write, and names of hosts and programs, may hold
// control characters, which a terminal would execute.
//
//	fmt.Println("the last output of rank 3 was", printable.Line(text))
//
// A control character is shown as the escape of Go that means it, such as \x1b. So is a byte that is not UTF-8, and a character
// that changes the direction of writing or is not visible. Everything else is unchanged.
package printable

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s without control characters, and so without line breaks.
func Line(s string) string { return clean(s, "") }

// Text returns s without control characters except line breaks and tabs.
func Text(s string) string { return clean(s, "\n\t") }

// clean escapes the control characters of s except those in keep.
func clean(s, keep string) string {
	i := firstUnsafe(s, keep)
	if i < 0 {
		return s
	}
	var b strings.Builder
	for i >= 0 {
		b.WriteString(s[:i])
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == utf8.RuneError && n == 1 || r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		s = s[i+n:]
		i = firstUnsafe(s, keep)
	}
	b.WriteString(s)
	return b.String()
}

// firstUnsafe returns the index of the first character to escape, or -1.
func firstUnsafe(s, keep string) int {
	for i, r := range s {
		switch {
		case r == utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		case unicode.IsControl(r) && !strings.ContainsRune(keep, r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return i
		}
	}
	return -1
}

// NewWriter returns a writer that writes Text of everything to w. A character of several bytes must be within one call of Write,
// as it is if text is written by package fmt.
func NewWriter(w io.Writer) io.Writer { return writer{w} }

type writer struct{ w io.Writer }

func (w writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.w, Text(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
