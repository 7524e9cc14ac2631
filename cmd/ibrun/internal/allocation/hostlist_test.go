package allocation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
)

// TestExpandHostList compares lists with what Slurm's "scontrol show hostnames" prints for them.
func TestExpandHostList(t *testing.T) {
	for text, want := range map[string]string{
		"n1":                    "n1",
		"n1,n2":                 "n1 n2",
		"n[1-3]":                "n1 n2 n3",
		"n[01-03,7]":            "n01 n02 n03 n7",
		"n[008-011]":            "n008 n009 n010 n011",
		"n[8-11]":               "n8 n9 n10 n11",
		"n[01-03,07],gpu[1-2]":  "n01 n02 n03 n07 gpu1 gpu2",
		"rack[0-1]node[3-4]":    "rack0node3 rack0node4 rack1node3 rack1node4",
		"a[1-2].cluster.org":    "a1.cluster.org a2.cluster.org",
		"c[1,2[0-1],3]-ib":      "c1-ib c20-ib c21-ib c3-ib",
		"tux[0-1][0-1]":         "tux00 tux01 tux10 tux11",
		"login-2.hpc":           "login-2.hpc",
		"[1-2]":                 "1 2",
		"c456-[001-002],c457-9": "c456-001 c456-002 c457-9",
	} {
		got, err := ExpandHostList(text)
		if s := strings.Join(got, " "); err != nil || s != want {
			t.Errorf("%s: %s, %v; want %s", text, s, err, want)
		}
	}
}

// TestExpandHostListErrors checks that errors name the column.
func TestExpandHostListErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "column 1: a host has no name",
		"a,,b":                "column 3: a host has no name",
		"a,":                  "column 3: a host has no name",
		"n[1-3":               "column 2: this bracket is not closed",
		"n1-3]":               "column 5: this bracket was not opened",
		"n[3-1]":              "column 3: the range 3-1 goes backwards",
		"n[a-b]":              `column 3: unexpected 'a' in a list of hosts`,
		"n[1-]":               `column 3: "1-" is not a number or a range such as 01-16`,
		"n[1-2-3]":            `column 3: "1-2-3" is not a number`,
		"n[]":                 `column 3: "" is not a number`,
		"n[0-65536]":          "column 3: there are more than 65536 hosts",
		"n[1-300][1-300]":     "column 1: there are more than 65536 hosts",
		"a b":                 `column 2: unexpected ' ' in a list of hosts`,
		"n[1[1[1[1[1[1[1[1[1": "column 18: brackets are nested more than 8 times",
		"n[9999999999999999999-9999999999999999999]": `column 3: "9999999999999999999-9999999999999999999" is not a number`,
		strings.Repeat("n", 300):                     "column 1: the name of a host is longer than 255 bytes",
	} {
		got, err := ExpandHostList(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}

// TestHostListPrefixes checks that every strict prefix of a list is an error or another list.
func TestHostListPrefixes(t *testing.T) {
	const text = "n[01-03,7]x,gpu[1-2]rack[3,4[0-1]]"
	whole, err := ExpandHostList(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) {
		if got, err := ExpandHostList(text[:i]); err == nil && slices.Equal(got, whole) {
			t.Errorf("%q means the same as %q", text[:i], text)
		}
	}
}

// FuzzHostList checks that the hosts of a list, joined by commas, are the same list.
func FuzzHostList(f *testing.F) {
	for _, s := range []string{"n[01-03,7],gpu[1-2]rack[3-4]", "c[1,2[0-1],3]-ib", "[1-2", "n[5-4]", "n[1-65536]", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names, err := ExpandHostList(text)
		if err != nil {
			if _, ok := errors.AsType[*inputfile.SyntaxError](err); !ok {
				t.Fatalf("%q: %v is not a syntax error", text, err)
			}
			return
		}
		again, err := ExpandHostList(strings.Join(names, ","))
		if err != nil || !slices.Equal(again, names) {
			t.Fatalf("%q means %q, which means %q, %v", text, names, again, err)
		}
	})
}

func TestExpandCounts(t *testing.T) {
	for text, want := range map[string]string{
		"2":          "[2]",
		"2(x3),1":    "[2 2 2 1]",
		"1,2(x2),72": "[1 2 2 72]",
		"0(x2)":      "[0 0]",
	} {
		got, err := ExpandCounts(text)
		if s := fmt.Sprint(got); err != nil || s != want {
			t.Errorf("%s: %s, %v; want %s", text, s, err, want)
		}
	}
	for text, want := range map[string]string{
		"":             `column 1: "" is not a number such as 2 or 2(x3)`,
		"2(x":          `column 2: "(x" is not a repetition such as (x3)`,
		"2(x0)":        `column 2: "(x0)" is not a repetition such as (x3)`,
		"1,2(x3)3":     `column 4: "(x3)3" is not a repetition such as (x3)`,
		"1,x":          `column 3: "x" is not a number such as 2 or 2(x3)`,
		"1(x65537)":    `column 1: there are more than 65536 hosts`,
		"9999999":      `column 1: "9999999" is not a number`,
		"2(x3),1(x2),": `column 13: "" is not a number`,
	} {
		if got, err := ExpandCounts(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}

// TestCountsPrefixes checks that every strict prefix of a list is an error or another list.
func TestCountsPrefixes(t *testing.T) {
	const text = "2(x3),16(x12),1"
	whole, err := ExpandCounts(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) {
		if got, err := ExpandCounts(text[:i]); err == nil && slices.Equal(got, whole) {
			t.Errorf("%q means the same as %q", text[:i], text)
		}
	}
}

// FuzzCounts checks that the numbers of a list, joined by commas, are the same list.
func FuzzCounts(f *testing.F) {
	for _, s := range []string{"2(x3),1", "72", "2(x", "1(x65536)", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		counts, err := ExpandCounts(text)
		if err != nil {
			if _, ok := errors.AsType[*inputfile.SyntaxError](err); !ok {
				t.Fatalf("%q: %v is not a syntax error", text, err)
			}
			return
		}
		again, err := ExpandCounts(strings.ReplaceAll(strings.Trim(fmt.Sprint(counts), "[]"), " ", ","))
		if err != nil || !slices.Equal(again, counts) {
			t.Fatalf("%q means %v, which means %v, %v", text, counts, again, err)
		}
	})
}
