package printable

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, Grüße, 漢字 🙂 \ufffd": "plain text, Grüße, 漢字 🙂 \ufffd",
		"":                         "",
		"\x1b[2J\x1b]0;title\a":    `\x1b[2J\x1b]0;title\x07`,
		"a\nibrun: b\r\tc":         `a\nibrun: b\x0d\x09c`,
		"\u009b31m":                `\u009b31m`, // CSI in one character
		"\x9b31m\xff":              `\x9b31m\xff`,
		"\x7f\x00":                 `\x7f\x00`,
		"abc\u202edcb\u200b\u2028": `abc\u202edcb\u200b\u2028`, // written from right to left
		"\U000e0041":               `\U000e0041`,
	} {
		if got := Line(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := Text("a\n\tb\x1b\r\n"); got != "a\n\tb\\x1b\\x0d\n" {
		t.Errorf("%q", got)
	}
	var b bytes.Buffer
	if n, err := fmt.Fprintf(NewWriter(&b), "a\x1b\n"); n != 3 || err != nil || b.String() != "a\\x1b\n" {
		t.Errorf("%d, %v, %q", n, err, b.String())
	}
}

// No text contains a control character afterwards, and a text without one is unchanged.
func FuzzLine(f *testing.F) {
	f.Add("\x1b[2J \xc2\x9b \xe2\x80\xae \xff é")
	f.Fuzz(func(t *testing.T, s string) {
		got := Line(s)
		if strings.ContainsFunc(got, unicode.IsControl) || !utf8.ValidString(got) {
			t.Errorf("%q became %q", s, got)
		}
		if Line(got) != got {
			t.Errorf("%q became %q, and then %q", s, got, Line(got))
		}
	})
}
