package printable

import (
	"bytes"
	"encoding/json"
	"slices"
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
}

// What is written through a Writer is the same however it is cut, and its end is not lost.
func TestWriter(t *testing.T) {
	const text, want = "a\x1b\nGrüße\u009b 🙂\xf0\x9f\xe2", `a\x1b` + "\n" + `Grüße\u009b 🙂\xf0\x9f\xe2`
	for size := 1; size <= len(text); size++ {
		var b bytes.Buffer
		w := NewWriter(&b)
		for part := range slices.Chunk([]byte(text), size) {
			if n, err := w.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := w.Flush(); err != nil || b.String() != want {
			t.Errorf("in parts of %d bytes: %q, %v; want %q", size, b.String(), err, want)
		}
	}
}

// JSON that is written has the same meaning as before, and no control characters.
func TestJSONWriter(t *testing.T) {
	const text = "\x1b\u007f\u009b\u200d\U000e0041\u2028\n\té🙂"
	var b bytes.Buffer
	if err := json.NewEncoder(NewJSONWriter(NewWriter(&b))).Encode(text); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got != text || Text(b.String()) != b.String() {
		t.Errorf("%q, %v, from %q", got, err, b.String())
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
