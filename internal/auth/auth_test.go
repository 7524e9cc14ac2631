package auth

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testSecret(fill byte) Secret { return NewSecret(bytes.Repeat([]byte{fill}, minSecret)) }

// TestFormat compares all MACs and keys with fixed values, since processes of other builds must compute the same.
func TestFormat(t *testing.T) {
	key := Key{1, 31: 2}
	head, body := []byte("head"), []byte("body")
	derived, err := testSecret(1).Derive([]byte("salt"), "job x")
	if err != nil {
		t.Fatal(err)
	}
	ofHandshake, err := testSecret(1).Transcript([]byte("sa"), []byte("lt")).Derive("job x")
	if err != nil {
		t.Fatal(err)
	}
	const token = "32c5917d0b7658f3f86de39601e621fdb12d09c76ed712e00da1ef5278101451"
	const frame = "1833799af03951058df84162f1c146c8cd29e28931f4f0e15d9c24b5330000cb"
	const derivedKey = "15aacd08172a5d909f53476b6170250e2d330053ce30c68882a23f377a3ddae7"
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"label":             {key.MAC("segment", make([]byte, 8)), token},
		"parts":             {key.MAC("", []byte("seg"), []byte("ment\x00"), make([]byte, 7)), token},
		"key":               {derived[:], derivedKey},
		"key of handshake":  {ofHandshake[:], derivedKey},
		"frame":             {derived.FrameMAC(7, head, body), frame},
		"frame in one part": {derived.FrameMAC(7, []byte("headbody")), frame},
		"transcript": {testSecret(1).Transcript([]byte("hello"), []byte("said")).MAC("node 0"),
			"3f48097d218ed15c671d18d248a20f8b643ee5c910ce4e65dd7e05f314ce1a4f"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestVerify(t *testing.T) {
	key, other := Key{1}, Key{2}
	m := key.MAC("label", []byte("message"))
	for name, c := range map[string]struct{ got, want bool }{
		"same":          {key.Verify(m, "label", []byte("message")), true},
		"other key":     {other.Verify(m, "label", []byte("message")), false},
		"other label":   {key.Verify(m, "level", []byte("message")), false},
		"other message": {key.Verify(m, "label", []byte("massage")), false},
		"cut short":     {key.Verify(m[:MACBytes-1], "label", []byte("message")), false},
		"frame":         {key.VerifyFrame(key.FrameMAC(3, []byte("x")), 3, []byte("x")), true},
		"other frame":   {key.VerifyFrame(key.FrameMAC(3, []byte("x")), 4, []byte("x")), false},
		"equal":         {Equal(m, bytes.Clone(m)), true},
		"not equal":     {Equal(m, m[1:]), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

func TestTranscript(t *testing.T) {
	key := Key{1}
	a, b := key.Transcript([]byte("hello")), key.Transcript([]byte("hel"), []byte("lo"))
	if !b.Verify(a.MAC("client"), "client") {
		t.Error("the same messages give different MACs")
	}
	if b.Verify(a.MAC("client"), "server") {
		t.Error("a MAC is valid under another label")
	}
	b = key.Transcript([]byte("hello"), []byte("challenge"))
	if b.Verify(a.MAC("client"), "client") {
		t.Error("a MAC is valid for a longer transcript")
	}
	x, err := a.Derive("x")
	if err != nil {
		t.Fatal(err)
	}
	if y, err := b.Derive("x"); err != nil || x == y {
		t.Errorf("two handshakes give the same key, or %v", err)
	}
}

// No verb of package fmt shows a key, a secret or that of a transcript, also not inside a struct with exported fields.
func TestHidden(t *testing.T) {
	key := Key{0: 0xab, 31: 0xcd}
	secret := NewSecret(key[:])
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		text := fmt.Sprintf(format, struct {
			K Key
			S Secret
			T *Transcript
			U *Transcript
		}{key, secret, key.Transcript(), secret.Transcript()})
		if strings.Contains(text, "ab") || strings.Contains(text, "171") || strings.Count(text, "(secret)") != 4 {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

func TestKeyText(t *testing.T) {
	key := Key{0: 0xab, 31: 0xcd}
	digits, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var got Key
	if err := got.UnmarshalText(digits); err != nil || got != key {
		t.Errorf("round trip: %v, equal: %v", err, got == key)
	}
	for i := range digits {
		if err := new(Key).UnmarshalText(digits[:i]); err == nil {
			t.Errorf("%d digits: no error", i)
		}
	}
	for _, text := range []string{`""`, `"ab"`, `"` + strings.Repeat("0", 63) + `x"`, `"` + strings.Repeat("0", 66) + `"`, `7`} {
		if err := json.Unmarshal([]byte(text), new(Key)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add([]byte(strings.Repeat("0f", KeyBytes)))
	f.Add([]byte("0f"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var key Key
		if key.UnmarshalText(text) != nil {
			return
		}
		if again, err := key.MarshalText(); err != nil || !bytes.EqualFold(again, text) {
			t.Errorf("%q became %q, %v", text, again, err)
		}
	})
}

func TestReadSecret(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, n int, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, make([]byte, n), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if f, err := os.OpenFile(write("newline", 31, 0o600), os.O_WRONLY|os.O_APPEND, 0); err != nil {
		t.Fatal(err)
	} else if _, err := f.WriteString("\n"); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, want string }{
		{write("good", 32, 0o600), ""},
		{write("readonly", 64, 0o400), ""},
		{write("group", 32, 0o640), "chmod 600"},
		{write("world", 32, 0o604), "chmod 600"},
		{write("short", 31, 0o600), "31 bytes, want 32"},
		{filepath.Join(dir, "newline"), "31 bytes, want 32"}, // without its newline
		{write("long", maxSecret+1, 0o600), "want 32 to"},
		{filepath.Join(dir, "missing"), "ibrun secret FILE"},
	} {
		s, err := ReadSecret(c.name)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if text := fmt.Sprintf("%v %+v %x", s, s, s); strings.Count(text, "(secret)") != 3 {
			t.Errorf("a secret prints as %s", text)
		}
	}
}

// A file of WriteSecret can be read by its owner only, holds another secret than the one before, and replaces nothing.
func TestWriteSecret(t *testing.T) {
	dir := t.TempDir()
	var last []byte
	for _, name := range []string{"a", "b"} {
		name = filepath.Join(dir, name)
		if err := WriteSecret(name); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSecret(name)
		if err != nil || len(s.bytes) != 64 || bytes.Equal(s.bytes, last) {
			t.Errorf("%d bytes, %v", len(s.bytes), err)
		}
		last = s.bytes
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if err := WriteSecret(name); !errors.Is(err, os.ErrExist) {
			t.Errorf("an existing file: %v", err)
		}
		if again, err := ReadSecret(name); err != nil || !bytes.Equal(again.bytes, last) {
			t.Errorf("the existing file has changed: %v", err)
		}
	}
}

// A newline at the end of the file, which an editor adds, is not a part of the secret.
func TestNewline(t *testing.T) {
	var secrets [2]Secret
	for i, text := range []string{strings.Repeat("s", 40), strings.Repeat("s", 40) + "\n"} {
		name := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if secrets[i], err = ReadSecret(name); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(secrets[0].bytes, secrets[1].bytes) {
		t.Error("a newline makes another secret")
	}
}

func TestDerive(t *testing.T) {
	a, err := testSecret(1).Derive([]byte("salt"), "job")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[32]byte]bool{}
	for _, c := range []struct {
		s         Secret
		salt, use string
	}{{testSecret(1), "salt", "job"}, {testSecret(2), "salt", "job"}, {testSecret(1), "other", "job"},
		{testSecret(1), "salt", "x"}} {
		key, err := c.s.Derive([]byte(c.salt), c.use)
		if err != nil {
			t.Fatal(err)
		}
		seen[key] = true
	}
	if !seen[a] || len(seen) != 4 {
		t.Errorf("%d keys of 4", len(seen))
	}
}
