package allocation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
)

// show returns hosts as [USER@]NAME:SLOTS[/MAX], with + for slots to skip.
func show(hosts []Host) string {
	var words []string
	for _, h := range hosts {
		s := fmt.Sprintf("%s:%d", h.Name, h.Slots)
		if h.User != "" {
			s = h.User + "@" + s
		}
		if h.MaxSlots > 0 {
			s += fmt.Sprintf("/%d", h.MaxSlots)
		}
		if h.Skip > 0 {
			s += fmt.Sprintf("+%d", h.Skip)
		}
		words = append(words, s)
	}
	return strings.Join(words, " ")
}

func TestParseHosts(t *testing.T) {
	for text, want := range map[string]string{
		"a":                 "a:0",
		"a,b:4,user@c:2":    "a:0 b:4 user@c:2",
		" a , b:2 ":         "a:0 b:2",
		"n[1-2]:3,x":        "n1:3 n2:3 x:0",
		"10.0.0.1:2":        "10.0.0.1:2",
		"[::1]:2,fe80::1":   "::1:2 fe80::1:0",
		"me@[fe80::1%eth0]": "me@fe80::1%eth0:0",
		"w-0.pi.ns.svc:8":   "w-0.pi.ns.svc:8",
	} {
		got, err := ParseHosts(text)
		if s := show(got); err != nil || s != want {
			t.Errorf("%s: %s, %v; want %s", text, s, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                          "column 1: a host has no name",
		"a,,b":                      "column 3: a host has no name",
		"a:":                        `column 3: "" is not a number of slots`,
		"a:0":                       `column 3: "0" is not a number of slots`,
		"a,b:-1":                    `column 5: "-1" is not a number of slots`,
		"a:x":                       `column 3: "x" is not a number of slots`,
		"-oProxyCommand=x":          `column 15: unexpected '='`,
		"-x":                        `column 1: the name of a host cannot begin with a dash`,
		"a,-x@b":                    `column 3: "-x" is not the name of a user`,
		"@b":                        `column 1: "" is not the name of a user`,
		"a b":                       `column 2: unexpected ' '`,
		"a,me@n[1-":                 `column 8: "1-" is not a number or a range`,
		"a;reboot":                  `column 2: unexpected ';'`,
		"-Fa::b":                    `column 4: unexpected ':'`,
		"b,[-Fa::b]":                `column 4: unexpected '-'`,
		"fe80::1%$x":                `column 5: unexpected ':'`,
		strings.Repeat("a,", 1<<17): "there are more than 65536 hosts",
	} {
		if got, err := ParseHosts(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %.80v, %v; want %s", text, got, err, want)
		}
	}
}

// TestHostsPrefixes checks that every strict prefix of a list is an error or another list.
func TestHostsPrefixes(t *testing.T) {
	const text = "a,b:4,user@c[1-2]:2,[::1]:12"
	whole, err := ParseHosts(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) {
		if got, err := ParseHosts(text[:i]); err == nil && slices.Equal(got, whole) {
			t.Errorf("%q means the same as %q", text[:i], text)
		}
	}
}

// safe returns an error for a host whose name or user could be mistaken for an option or contain characters that a shell
// knows.
func safe(h Host) error {
	for _, word := range []string{h.Name, h.User} {
		if strings.HasPrefix(word, "-") || strings.ContainsAny(word, " \t\n\x00'\"`;|&<>()*?[]{}!~#=,/@") || h.Name == "" {
			return fmt.Errorf("host %q, user %q", h.Name, h.User)
		}
	}
	if h.Slots < 0 || h.Slots > maxSlots || h.MaxSlots < 0 || h.MaxSlots > maxSlots {
		return fmt.Errorf("%d slots, at most %d", h.Slots, h.MaxSlots)
	}
	return nil
}

// FuzzHosts checks that no list of hosts results in an option or a word for a shell.
func FuzzHosts(f *testing.F) {
	for _, s := range []string{"a,b:4,user@c:2", "n[1-2]:3", "[::1]:2", "-x", "a:99999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := ParseHosts(text)
		if _, ok := errors.AsType[*inputfile.SyntaxError](err); err != nil && !ok {
			t.Fatalf("%q: %v is not a syntax error", text, err)
		}
		for _, h := range hosts {
			if err := safe(h); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}

func TestParseHostFile(t *testing.T) {
	for _, c := range []struct{ text, want, notes string }{
		{"n1 slots=4\nn2 slots=2 max_slots=3\n", "n1:4 n2:2/3", ""},
		{"# hosts\n\n  n1 slots = 4 # the first\r\nuser@n2\tmax-slots=8", "n1:4 user@n2:0/8", ""},
		{"n1:4\nn2:2 user=foo binding=core:1,2\n", "n1:4 foo@n2:2",
			"binding= in a host file has no effect: choose with --bind-to or --rank-file"},
		{"n1\nn1\nn2\n", "n1:0 n1:0 n2:0", ""},
		{"n1:2:mlx5_0\n", "n1:2",
			"devices in a host file have no effect: ranks choose those near them, see docs/affinity.md"},
		{"pi-worker-0.pi.ns.svc slots=1\npi-worker-1.pi.ns.svc slots=1\n", "pi-worker-0.pi.ns.svc:1 pi-worker-1.pi.ns.svc:1",
			""},
		{"fe80::1\n[fe80::2]:3\n", "fe80::1:0 fe80::2:3", ""},
		{"", "", ""},
	} {
		hosts, notes, err := ParseHostFile("f", c.text)
		if s := show(hosts); err != nil || s != c.want || strings.Join(notes, ";") != c.notes {
			t.Errorf("%q: %s, %q, %v; want %s, %q", c.text, s, notes, err, c.want, c.notes)
		}
	}
	for text, want := range map[string]string{
		"n1 slots=x":             `f:1:10: "x" is not a number of slots`,
		"n1\n n2 slots=0":        `f:2:11: "0" is not a number of slots`,
		"n1\nn2 slots":           `f:2:4: unexpected "slots" after the host`,
		"n1 slots=":              `f:1:10: slots= has no value`,
		"n1 slost=4":             `f:1:4: unknown word slost=`,
		"slots=4":                `f:1:1: a line begins with the name of a host`,
		"=4":                     `f:1:1: there is no name before =`,
		"+n0 slots=2":            `f:1:1: +n0 counts the hosts`,
		"^n0":                    `f:1:1: ^n0 excludes a host`,
		"n1:2 max_slots=1":       `f:1:1: host n1 has 2 slots, which are more than its max_slots=1`,
		"n1\n-x slots=1":         `f:2:1: the name of a host cannot begin with a dash`,
		"n1 user=-x":             `f:1:9: "-x" is not the name of a user`,
		"n1:a":                   `f:1:4: "a" is not a number of slots`,
		"n[1-2] slots=1":         `f:1:1: a line has one host: n[1-2] means 2`,
		"n1\x00 slots=1":         `f:1:3: unexpected '\x00' in a list of hosts`,
		"\xffn1":                 `f:1:1: unexpected 'ÿ' in a list of hosts`,
		"n1 slots=99999999":      `f:1:10: "99999999" is not a number of slots`,
		"a\nb\nc slots = \nd\n":  `f:3:11: slots= has no value`,
		"#!/bin/sh\nexec mpirun": `f:2:6: unexpected "mpirun" after the host`,
	} {
		if hosts, _, err := ParseHostFile("f", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", text, hosts, err, want)
		}
	}
}

// TestHostFilePrefixes checks that every strict prefix of a file is an error, or means fewer or other hosts.
func TestHostFilePrefixes(t *testing.T) {
	const text = "n1 slots=4 max_slots=12\nuser@n2:2\nn3:4:mlx5_0\nn4 slots = 16"
	whole, _, err := ParseHostFile("f", text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) {
		if got, _, err := ParseHostFile("f", text[:i]); err == nil && slices.Equal(got, whole) {
			t.Errorf("%q means the same as %q", text[:i], text)
		}
	}
}

// FuzzHostFile checks that no host file results in an option or a word for a shell, and that errors are in the file.
func FuzzHostFile(f *testing.F) {
	for _, s := range []string{"n1 slots=4 max_slots=12\nuser@n2:2\n", "n3:4:mlx5_0", "n4 slots = 16 # x", "a\nb slots=\n",
		"[::1]:2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hosts, _, err := ParseHostFile("f", text)
		if e, ok := errors.AsType[*inputfile.SyntaxError](err); err != nil && (!ok || e.Line < 1 || e.Line > 1+strings.Count(text,
			"\n") || e.Column < 1) {
			t.Fatalf("%q: %v is not a syntax error in the file", text, err)
		}
		for _, h := range hosts {
			if err := safe(h); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}

func TestHostFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxFileSize+1); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("# nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "missing"): "read the host file: open",
		dir:                           "read the host file: read",
		large:                         "is larger than 16 MiB",
		empty:                         "names no host",
	} {
		if a, err := Find(Options{Files: []string{name}}, func(string) string { return "" },
			"n1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", name, a, err, want)
		}
	}
}

// TestHostsAndCountsPrefixes checks that every strict prefix of LSF's list is an error or another list.
func TestHostsAndCountsPrefixes(t *testing.T) {
	const text = "hostA 4 hostB 12"
	whole, err := parseHostsAndCounts(text)
	if s := show(whole); err != nil || s != "hostA:4 hostB:12" {
		t.Fatal(s, err)
	}
	for i := range len(text) {
		if got, err := parseHostsAndCounts(text[:i]); err == nil && slices.Equal(got, whole) {
			t.Errorf("%q means the same as %q", text[:i], text)
		}
	}
}

// FuzzHostsAndCounts checks that no list of LSF results in an option or a word for a shell.
func FuzzHostsAndCounts(f *testing.F) {
	for _, s := range []string{"hostA 4 hostB 12", "a", "a x", "-x 2", "\u2000", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := parseHostsAndCounts(text)
		if _, ok := errors.AsType[*inputfile.SyntaxError](err); err != nil && !ok {
			t.Fatalf("%q: %v is not a syntax error", text, err)
		}
		for _, h := range hosts {
			if err := safe(h); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}
