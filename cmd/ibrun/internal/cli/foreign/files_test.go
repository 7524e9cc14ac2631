package foreign

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
)

// flat returns programs as one line.
func flat(programs [][]Word) string {
	var lines []string
	for _, p := range programs {
		var words []string
		for _, w := range p {
			words = append(words, w.Text)
		}
		lines = append(lines, strings.Join(words, "|"))
	}
	return strings.Join(lines, "\n")
}

func TestPrograms(t *testing.T) {
	for _, c := range []struct {
		text, want string
		ofMPICH    bool
	}{
		{"-n 1 a\r\n\n# x\n  b 'c d' # e", "-n|1|a\nb|'c|d'", false},
		{"a // b\n\tc", "a\nc", false},
		{"a : b // c\n: d :", "a\nb|//|c\nd", true},
	} {
		if got, err := parsePrograms("f", c.text, c.ofMPICH); err != nil || flat(got) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.text, flat(got), err, c.want)
		}
	}
	programs, err := parsePrograms("f", "\n -n 1 a", false)
	if err != nil || programs[0][2].At != "f:2:7" {
		t.Errorf("places: %+v, %v", programs, err)
	}
}

func TestProgramErrors(t *testing.T) {
	for _, c := range []struct {
		text, want string
		ofMPICH    bool
	}{
		{"", "f:1:1: the file lists no program", false},
		{"\n# x\n", "f:2:1: the file lists no program", true},
		{"a\nb c#d", "f:2:4: a comment begins within a word", true},
		{"a http://x", "f:1:8: a comment begins within a word", false},
		{"a : b", `f:1:3: ":" cannot be an argument`, false},
		{strings.Repeat("a\n", maxPrograms+1), "f:65537:1: there are more than 65536 programs", false},
	} {
		_, err := parsePrograms("f", c.text, c.ofMPICH)
		wantSyntaxError(t, err, c.want)
	}
}

func wantSyntaxError(t *testing.T, err error, want string) {
	t.Helper()
	var syntax *inputfile.SyntaxError
	if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// tasks returns the programs of a file for --multi-prog as one line.
func tasks(text, count string) (string, error) {
	lines, err := parseTasks("f", text)
	if err != nil {
		return "", err
	}
	programs, err := assignTasks("f", lines, count)
	var words []string
	for _, p := range programs {
		words = append(words, fmt.Sprint(p.ranks, " ", strings.ReplaceAll(flat([][]Word{p.words}), "|", " ")))
	}
	return strings.Join(words, " : "), err
}

func TestTasks(t *testing.T) {
	for _, c := range []struct{ text, count, want string }{
		{"0-2 a\n3 b c", "", "3 a : 1 b c"},
		{"0,2 a\n1 b", "3", "1 a : 1 b : 1 a"},
		{"1-2 a %t %o\n* b %t", "4", "1 b 0 : 1 a 1 0 : 1 a 2 1 : 1 b 3"},
		{"* a 'x  y''z' ''\n", "2", "2 a x  yz "},
		{"# c\n\n0 a \\\n  b \\\n c\n1 d", "", "1 a b c : 1 d"},
		{"0 \\\na", "", "1 a"},
	} {
		if got, err := tasks(c.text, c.count); err != nil || got != c.want {
			t.Errorf("%q with -n %s: %q, %v, want %q", c.text, c.count, got, err, c.want)
		}
	}
}

func TestTaskErrors(t *testing.T) {
	for _, c := range []struct{ text, count, want string }{
		{"", "", "f:1:1: the file lists no program"},
		{"0\n", "", "f:1:2: want a program after the ranks"},
		{"x a", "", `f:1:1: "x" is not a rank`},
		{"\n 0,x a", "", `f:2:4: "x" is not a rank`},
		{"0,3-1 a", "", "f:1:3: the range 3-1 goes backwards"},
		{"0- a", "", `f:1:1: "0-" is not a rank`},
		{"2000000 a", "", "is not a rank"},
		{"0 a 'b", "", "f:1:5: the quote is not closed"},
		{"0 a : b", "", `f:1:5: ":" cannot be an argument`},
		{"0 a \\", "", "f:1:1: the file ends after a backslash"},
		{"* a", "", "f:1:1: * stands for the other ranks"},
		{"0 a\n0-1 b", "", "f:2:1: rank 0 already has a program, in line 1"},
		{"0-2 a", "2", "f:1:1: rank 2 is out of range: the job has ranks 0 to 1"},
		{"* a %t", "70000", "f:1:1: the file makes more than 65536 programs"},
	} {
		_, err := tasks(c.text, c.count)
		wantSyntaxError(t, err, c.want)
	}
	for _, c := range []struct{ text, count, want string }{
		{"0 a\n2 b", "", "f: no line has a program for rank 1"},
		{"0 a", "2", "f: no line has a program for rank 1"},
		{"0 a", "many", "-n many: want a number of ranks"},
	} {
		if _, err := tasks(c.text, c.count); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
	}
}

const (
	goodPrograms = "# c\n-n 1 a b // d\n-n 2 -x A=1 c\n"
	goodTasks    = "# c\n0,2-3 a 'b c' %t\n1 d \\\n e\n* f %o\n"
)

// TestFilePrefixes: every strict prefix of a file is accepted, or is an error with a place.
func TestFilePrefixes(t *testing.T) {
	for i := range goodPrograms {
		checkPrograms(t, goodPrograms[:i])
	}
	for i := range goodTasks {
		checkTasks(t, goodTasks[:i], "6")
	}
}

func checkPrograms(t *testing.T, text string) {
	for _, ofMPICH := range []bool{false, true} {
		programs, err := parsePrograms("f", text, ofMPICH)
		if err != nil {
			wantSyntaxError(t, err, "f:")
			continue
		}
		for _, p := range programs {
			for _, w := range p {
				if w.Text == "" || w.Text == ":" || strings.ContainsAny(w.Text, blanks+"\n") {
					t.Errorf("%q: word %q", text, w.Text)
				}
			}
		}
	}
}

func checkTasks(t *testing.T, text, count string) {
	lines, err := parseTasks("f", text)
	if err != nil {
		wantSyntaxError(t, err, "f:")
		return
	}
	programs, err := assignTasks("f", lines, count)
	if err != nil {
		return
	}
	ranks := 0
	for _, p := range programs {
		if ranks += p.ranks; len(p.words) == 0 || p.ranks < 1 {
			t.Errorf("%q: %d ranks of program %q", text, p.ranks, p.words)
		}
	}
	if count != "" && fmt.Sprint(ranks) != count {
		t.Errorf("%q: %d ranks, want %s", text, ranks, count)
	}
}

func FuzzPrograms(f *testing.F) {
	f.Add(goodPrograms)
	f.Add("a : b\n")
	f.Fuzz(checkPrograms)
}

func FuzzTasks(f *testing.F) {
	f.Add(goodTasks, "6")
	f.Add("0-3 a", "")
	f.Fuzz(checkTasks)
}

// FuzzTranslate: no command line crashes, and one that is accepted stays the same when it is translated again.
func FuzzTranslate(f *testing.F) {
	for _, line := range []string{"-n 4 p", "--ntasks=4 -c 2 p : --chdir /d q", "-genv A 1 -l p", "-N 2 --mca btl tcp " +
		"p", "-N4 p", "-env A", "-- -v",
		"--nnodes 2 --node-rank 1 --master-addr h p", "--export=ALL,A=1 p", "-o %t p", "--time 1-2:3 p", "-H a,b:2,[::1] p"} {
		f.Add(line)
	}
	native := func(name string) (value, known bool) {
		known = strings.Contains(" n x wdir ppn label map-by bind-to transport hosts timeout output offset node "+
			"rendezvous verbose version ", " "+name+" ")
		return known && !strings.Contains(" label verbose version ", " "+name+" "), known
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "-app") || strings.Contains(line, "-configfile") || strings.Contains(line, "-multi-prog") {
			return // they read files
		}
		c, err := Translate(strings.Split(line, " "), native)
		if err != nil {
			return
		}
		again, err := Translate(c.Args(), native)
		if err != nil {
			return // a value that only ibrun's own flag refuses
		}
		if got, want := strings.Join(again.Args(), " "), strings.Join(c.Args(), " "+
			""); got != want && !strings.Contains(line, "output") {
			t.Errorf("%q became %q, and then %q", line, want, got)
		}
	})
}
