package placement

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
)

const goodFile = `# two hosts
rank 0=n slot=0-2
rank 2=+n0 slot=1:0,2  # the second package

  rank 1 = n  slot = *`

func TestParseRankFile(t *testing.T) {
	f, err := ParseRankFile("r", goodFile)
	want := &RankFile{Name: "r", Lines: []RankLine{
		{Rank: 0, Host: "n", Package: -1, Cores: []int{0, 1, 2}, Line: 2, RankColumn: 6, HostColumn: 8, SlotColumn: 15},
		{Rank: 2, Package: 1, Cores: []int{0, 2}, Line: 3, RankColumn: 6, HostColumn: 8, SlotColumn: 17},
		{Rank: 1, Host: "n", Package: -1, Line: 5, RankColumn: 8, HostColumn: 12, SlotColumn: 22},
	}}
	if err != nil || !reflect.DeepEqual(f, want) {
		t.Errorf("got %+v, %v\nwant %+v", f, err, want)
	}
}

func TestRankFileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"rank 0=n slot=0\nrnak 1=n slot=1\n": "r:2:1: want a line such as",
		"rank x=n slot=0":                    `r:1:6: invalid rank number "x"`,
		"rank 0 n slot=0":                    "r:1:8: expected = and a host",
		"rank 0= ":                           "r:1:9: expected a host",
		"rank 0=+n slot=0":                   `r:1:10: invalid node number ""`,
		"rank 0=n":                           "r:1:9: expected slot= and cores",
		"rank 0=n slot 3":                    "r:1:15: expected = and cores after slot",
		"rank 0=n slot=":                     `r:1:15: invalid core number ""`,
		"rank 0=n slot=0-":                   `r:1:17: invalid core number ""`,
		"rank 0=n slot=3-1":                  "r:1:15: the range 3-1 goes backwards",
		"rank 0=n slot=0,0":                  "r:1:15: core 0 is listed twice",
		"rank 0=n slot=0 1":                  `r:1:17: unexpected "1"`,
		"rank 0=n slot=a:0":                  `r:1:15: invalid package number "a"`,
		"rank 0=n slot=0-1:0":                "r:1:16: expected one package number",
		"rank 0=n slot=0-999999":             "r:1:15: more than 65536 cores",
		"rank 0=n slot=99999999":             "invalid core number",
		"rank 0=n slot=0\nrank 0=n slot=1":   "r:2:6: rank 0 is already placed in line 1",
	} {
		f, err := ParseRankFile("r", text)
		var syntax *inputfile.SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, f, err, want)
		}
	}
}

func TestByRankFile(t *testing.T) {
	other := twoPackageMachine()
	other.Name = "o"
	for _, c := range []struct{ text, want string }{
		{goodFile, "0-2,16-18 0-31 8,10,24,26"},
		{"rank 0=o slot=0\nrank 1=n slot=1\nrank 2=+n1 slot=1:7", "0,16 1,17 15,31"},
		{"rank 0=n slot=0\nrank 1=n slot=1", "r does not place rank 2"},
		{"rank 0=n slot=0\nrank 3=n slot=1", "r:2:6: rank 3 is out of range: the job has ranks 0 to 2"},
		{"rank 0=x slot=0", "r:1:8: unknown node x: the nodes of the job are n, o"},
		{"rank 0=+n2 slot=0", "r:1:8: unknown node +n2"},
		{"rank 0=n slot=16\nrank 1=n slot=0\nrank 2=n slot=1",
			"r:1:15: core 16 is out of range: n has 16 usable cores, numbered from 0"},
		{"rank 0=n slot=0\nrank 1=n slot=2:0\nrank 2=n slot=1",
			"r:2:15: package 2 is out of range: n has 2 usable packages, numbered from 0"},
		{"rank 0=n slot=0\nrank 1=n slot=1:8\nrank 2=n slot=1", "r:2:15: core 8 is out of range: package 1 of n has 8 usable cores"},
	} {
		f, err := ParseRankFile("r", c.text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		plan, err := NewPlan([]Machine{twoPackageMachine(), other}, 3, Policy{File: f})
		if err != nil {
			got = err.Error()
		} else {
			got = boundPUList(plan)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%q: %s; want %s", c.text, got, c.want)
		}
	}
	f, err := ParseRankFile("r", "rank 0=n slot=0-3\nrank 1=n slot=3")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan([]Machine{twoPackageMachine()}, 2, Policy{File: f})
	if err != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "ranks 0 and 1 share PUs 3,19") {
		t.Errorf("notes %q, %v; want one about shared PUs", plan.Notes, err)
	}
}

func FuzzRankFile(f *testing.F) {
	f.Add(goodFile)
	f.Add("rank 0=+n1 slot=1:0-3,5\r\nrank 1=n slot=*\n")
	f.Add("rank 0=n slot=0-1:0")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseRankFile("r", text)
		if err != nil {
			var syntax *inputfile.SyntaxError
			if !errors.As(err, &syntax) || syntax.Line < 1 || syntax.Line > strings.Count(text, "\n")+1 || syntax.Column < 1 {
				t.Fatalf("%q: %#v has no valid position", text, err)
			}
			return
		}
		if plan, err := NewPlan([]Machine{twoPackageMachine()}, max(1, len(file.Lines)), Policy{File: file}); err == nil {
			for i, r := range plan.Ranks {
				if r.Rank != i || !r.Bound || len(r.PUs) == 0 {
					t.Fatalf("%q places rank %d at %+v", text, i, r)
				}
			}
		}
	})
}
