// Package printable makes text of other programs safe to print: what ranks write, and names of hosts and programs, may hold
// control characters, which a terminal would execute.
//
//	fmt.Println("the last output of rank 3 was", printable.Line(text))
//
//	out := printable.NewWriter(os.Stdout) // for all that a command prints
//	defer out.Flush()
//	err := json.NewEncoder(printable.NewJSONWriter(out)).Encode(v)
//
// A control character is shown as the escape of Go that means it, such as \x1b. So is a byte that is not UTF-8, and a character
// that changes the direction of writing or is not visible. Everything else is unchanged.
package printable

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
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
		case isUnsafe(r, keep):
			return i
		}
	}
	return -1
}

// isUnsafe reports whether a character is to be escaped.
func isUnsafe(r rune, keep string) bool {
	return unicode.IsControl(r) && !strings.ContainsRune(keep, r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// Writer writes Text of everything to another writer.
type Writer struct {
	to   io.Writer
	rest []byte // the first bytes of a character, whose others follow
}

// NewWriter returns a writer that writes Text of everything to w. It is not for several goroutines at a time.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write keeps the first bytes of a character, until the others follow or Flush is called.
func (w *Writer) Write(b []byte) (int, error) {
	all := append(w.rest, b...)
	n := whole(all)
	w.rest = append([]byte(nil), all[n:]...)
	if _, err := io.WriteString(w.to, Text(string(all[:n]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes the first bytes of a character whose others have not followed.
func (w *Writer) Flush() error {
	rest := w.rest
	if w.rest = nil; len(rest) == 0 {
		return nil
	}
	_, err := io.WriteString(w.to, Text(string(rest)))
	return err
}

// whole returns the length of b without the first bytes of a character at its end.
func whole(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// NewJSONWriter returns a writer for whole texts of JSON. Within their strings it escapes what Text does, as JSON does that.
func NewJSONWriter(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ to io.Writer }

func (w jsonWriter) Write(b []byte) (int, error) {
	if _, err := w.to.Write(JSON(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// JSON returns text of JSON in which what Text escapes is escaped as JSON does that. Such characters can only be within strings.
func JSON(text []byte) []byte {
	b := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch high, low := utf16.EncodeRune(r); {
		case !isUnsafe(r, "\n\t"):
			b = utf8.AppendRune(b, r)
		case high != unicode.ReplacementChar:
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}
