package pmi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// spawnTwo is a request for two programs as MPICH sends it.
const spawnTwo = "mcmd=spawn\nnprocs=2\nexecname=./a b\ntotspawns=2\nspawnssofar=1\narg1=-x =y\nargcnt=1\npreput_num=1\n" +
	"preput_key_0=k\npreput_val_0=v\ninfo_num=0\nendcmd\n" +
	"mcmd=spawn\nnprocs=1\nexecname=c\ntotspawns=2\nspawnssofar=2\nargcnt=0\npreput_num=0\ninfo_num=0\nendcmd\n"

// goodMessages are complete messages of existing launchers and clients.
var goodMessages = map[string]message{
	"cmd=init pmi_version=1 pmi_subversion=1\n": {"init", []arg{{"pmi_version", "1"}, {"pmi_subversion", "1"}}},
	"cmd=finalize\n":                                 {"finalize", nil},
	"cmd=get_result rc=0 value=\n":                   {"get_result", []arg{{"rc", "0"}, {"value", ""}}},
	"cmd=get_result rc=0  value=(vector,(0,1,2)) \n": {"get_result", []arg{{"rc", "0"}, {"value", "(vector,(0,1,2))"}}},
	"cmd=put kvsname=a key=b value=c=d#$\n":          {"put", []arg{{"kvsname", "a"}, {"key", "b"}, {"value", "c=d#$"}}},
	"cmd=abort exitcode=3 message=a\\ b\\\\ junk\n":  {"abort", []arg{{"exitcode", "3"}, {"message", `a\ b\\`}}},
	spawnTwo: {"spawn", nil},
	"mcmd=spawn\nnprocs=1\nexecname=c\ntotspawns=1\nspawnssofar=1\nendcmd\n": {"spawn", nil},
}

func TestDecode(t *testing.T) {
	for text, want := range goodMessages {
		for _, tail := range []string{"", "cmd=next\n", "\x00"} {
			m, n, err := decode([]byte(text + tail))
			if err != nil || n != len(text) || !reflect.DeepEqual(m, want) {
				t.Errorf("decode(%q) = %+v, %d, %v; want %+v, %d", text+tail, m, n, err, want, len(text))
			}
		}
	}
}

func TestDecodePrefixNeedsMore(t *testing.T) {
	for text := range goodMessages {
		for i := range text {
			if m, n, err := decode([]byte(text[:i])); n != 0 || err != nil {
				t.Errorf("decode(%q) = %+v, %d, %v; want need more", text[:i], m, n, err)
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"other protocol":    "    45cmd=fullinit;",
		"upper case":        "CMD=init\n",
		"empty line":        "\n",
		"no command":        "cmd=\n",
		"only spaces":       "cmd=   \n",
		"other mcmd":        "mcmd=put\n",
		"mcmd with words":   "mcmd=spawn nprocs=1\n",
		"bad total":         "mcmd=spawn\ntotspawns=two\n",
		"endless line":      "cmd=put value=" + strings.Repeat("x", maxMessage),
		"endless spawn":     "mcmd=spawn\n" + strings.Repeat("arg1=x\n", maxMessage/7),
		"too many values":   "cmd=put" + strings.Repeat(" a=b", maxArgs+1) + "\n",
		"line break inside": "cmd=get\nkey=a\n",
	} {
		r := reader{src: strings.NewReader(text)}
		var err error
		for err == nil {
			_, err = r.next()
		}
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want %v", name, err, ErrMalformed)
		}
	}
}

func TestEncode(t *testing.T) {
	got := string(encode("put", "kvsname", "7.0", "key", "a0", "value", "beef"))
	if want := "cmd=put kvsname=7.0 key=a0 value=beef\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReaderAnyPieces(t *testing.T) {
	long := "cmd=put value=" + strings.Repeat("x", 5000) + "\n"
	text := "cmd=init a=1\n" + spawnTwo + long + "cmd=finalize\n"
	for name, src := range map[string]io.Reader{
		"whole":         strings.NewReader(text),
		"single bytes":  iotest.OneByteReader(strings.NewReader(text)),
		"last with EOF": iotest.DataErrReader(strings.NewReader(text)),
	} {
		r := reader{src: src}
		var cmds []string
		for {
			m, err := r.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			cmds = append(cmds, m.cmd)
		}
		if got := strings.Join(cmds, " "); got != "init spawn put finalize" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestReaderCutShort(t *testing.T) {
	r := reader{src: strings.NewReader("cmd=init\ncmd=fin")}
	if _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.next(); err != io.ErrUnexpectedEOF {
		t.Errorf("got %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

func TestReaderMemoryIsBounded(t *testing.T) {
	r := reader{src: io.MultiReader(strings.NewReader("cmd=x a="), endless{})}
	if _, err := r.next(); !errors.Is(err, ErrMalformed) {
		t.Fatalf("got %v, want %v", err, ErrMalformed)
	}
	if cap(r.buf) > 2*maxMessage {
		t.Errorf("reader holds %d bytes", cap(r.buf))
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestEscape(t *testing.T) {
	for _, s := range []string{"", "plain", "two words", `back\slash \ `, "ünïcode"} {
		m, _, err := decode(encode("abort", "message", escape(s)))
		if got := unescape(m.get("message")); err != nil || got != s {
			t.Errorf("%q came back as %q, %v", s, got, err)
		}
	}
	if got := unescape(escape("two\nlines\x00")); got != "two lines " {
		t.Errorf("got %q", got)
	}
}

func FuzzDecode(f *testing.F) {
	for text := range goodMessages {
		f.Add([]byte(text))
		f.Add([]byte(text[:len(text)/2]))
	}
	f.Add([]byte("cmd=a \\\n"))
	f.Add([]byte("mcmd=spawn\nendcmd\nmcmd=x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, n, err := decode(b)
		if n < 0 || n > len(b) || err != nil && n != 0 || n > 0 && m.cmd == "" {
			t.Fatalf("decode = %+v, %d, %v", m, n, err)
		}
		if n == 0 {
			return
		}
		for i := range n {
			if _, n, err := decode(b[:i]); n != 0 {
				t.Fatalf("prefix of %d bytes is a message of %d, %v", i, n, err)
			}
		}
		if m.cmd == "spawn" && bytes.HasPrefix(b, []byte("mcmd")) {
			return
		}
		var words []string
		for _, a := range m.args {
			words = append(words, a.key, a.value)
		}
		again, _, err := decode(encode(m.cmd, words...))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(m) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
