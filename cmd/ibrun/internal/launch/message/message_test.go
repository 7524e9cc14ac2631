package message

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/schematest"
)

func TestSchema(t *testing.T) {
	schematest.Compare(t, "log", "what ibrun --log-format json prints, each line", Line{})
}

// full returns a message that has every attribute.
func full(t testing.TB) *Message {
	m := &Message{Level: slog.LevelWarn, Msg: "what has \"happened\"", Origin: Origin{Job: "j", Host: "h", Node: 3}}
	v := reflect.ValueOf(&m.Attrs).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i).Addr().Interface().(type) {
		case **int:
			*f = new(0) // zero is a value
		case **uint64:
			*f = new(uint64(0))
		case *int:
			*f = i + 1
		case *uint64:
			*f = uint64(i + 1)
		case *float64:
			*f = 0.25
		case *string:
			*f = name + " <é>\n"
		case *[]int:
			*f = []int{0, i}
		case *[]string:
			*f = []string{name, ""}
		default:
			t.Fatalf("%s has a type that the test does not know", name)
		}
	}
	return m
}

// JSON writes every attribute under the name that Decode knows, and Decode returns the same message.
func TestJSON(t *testing.T) {
	now := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	for _, m := range []*Message{full(t), {Level: slog.LevelError, Msg: "m", Origin: Origin{Host: "h"}}} {
		text := string(m.JSON(now))
		want, err := json.Marshal(Line{now, *m})
		if err != nil {
			t.Fatal(err)
		}
		var x, y any
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(want, &y); err != nil || !reflect.DeepEqual(x, y) {
			t.Errorf("got %s, want the values of %s", text, want)
		}
		if got, ok := Decode(strings.TrimSuffix(text, "\n")); !ok || !reflect.DeepEqual(got, m) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s was decoded as %+v, %v", text, got, ok)
		}
	}
}

// A terminal that shows a line of JSON executes nothing that ranks or programs have written, and nothing is lost.
func TestEscape(t *testing.T) {
	m := &Message{Msg: "m", Origin: Origin{Host: "h"}, Attrs: Attrs{Text: "\x1b[2J \x7f \u009b1m \u202e \U000e0001 é \"\\"}}
	text := strings.TrimSuffix(string(m.JSON(time.Now())), "\n")
	unsafe := func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 || r > 0x2000 }
	if i := strings.IndexFunc(text, unsafe); i >= 0 {
		t.Errorf("%q has a character that is not escaped at %d", text, i)
	}
	if got, ok := Decode(text); !ok || got.Text != m.Text {
		t.Errorf("%s was decoded as %+v, %v", text, got, ok)
	}
	m.Text = "caf\xe9" // is not UTF-8
	if got, ok := Decode(strings.TrimSuffix(string(m.JSON(time.Now())), "\n")); !ok || got.Text != "caf\ufffd" {
		t.Errorf("%+v, %v", got, ok)
	}
}

func TestLines(t *testing.T) {
	for want, m := range map[string]Message{
		"m":                {Msg: "m"},
		"m: e":             {Msg: "m", Attrs: Attrs{Error: "e"}},
		"t":                {Msg: "m", Attrs: Attrs{Error: "e", Text: "t"}},
		"t|  | a|  | b":    {Msg: "m", Attrs: Attrs{LastOutput: "a\nb", Text: "t"}},
		"two\nlines|  | a": {Msg: "m", Attrs: Attrs{LastOutput: "a\n", Text: "two\nlines"}},
	} {
		if got := strings.Join(m.Lines(), "|"); got != want {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
	m := Message{Msg: "m", Origin: Origin{Host: "h"}, Attrs: Attrs{Error: "e", Text: "e"}}
	if text := string(m.JSON(time.Now())); strings.Contains(text, `"text"`) {
		t.Errorf("%s repeats the error as text", text)
	}
}

func TestDecodePrefixes(t *testing.T) {
	text := strings.TrimSuffix(string(full(t).JSON(time.Now())), "\n")
	for n := range len(text) {
		if m, ok := Decode(text[:n]); ok {
			t.Errorf("%s was decoded as %+v", text[:n], m)
		}
	}
	for _, bad := range []string{text + "x", text + text, " " + text, strings.Replace(text, `"rank"`, `"rang"`, 1),
		strings.Replace(text, "WARN", "WARN+1", 1), strings.Replace(text, `"host":"h"`, `"host":""`, 1),
		strings.Replace(text, `"time"`, `"pid"`, 1), strings.Replace(text, `"node":3`, `"node":"3"`, 1)} {
		if m, ok := Decode(bad); ok {
			t.Errorf("%s was decoded as %+v", bad, m)
		}
	}
}

func FuzzDecode(f *testing.F) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Add(strings.TrimSuffix(string(full(f).JSON(now)), "\n"))
	f.Add(`{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"m","host":"h","node":0,"ranks":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := Decode(text)
		if !ok {
			return
		}
		again := m.JSON(now)
		m2, ok := Decode(string(again[:len(again)-1]))
		if !ok || slices.Contains(again[:len(again)-1], '\n') {
			t.Fatalf("%q was decoded as %+v, but not %s", text, m, again)
		}
		// The texts are compared, because an empty list is the same as none.
		if third := m2.JSON(now); !bytes.Equal(third, again) {
			t.Errorf("%q was decoded as %s, and again as %s", text, again, third)
		}
	})
}
