package tracemerge

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"github.com/ibrun/ibrun/perf/profile"
)

// TestProfiles: the profiles of several ranks become one with labels, with warnings about missing and damaged ones.
func TestProfiles(t *testing.T) {
	memory := make([]byte, profile.Bytes)
	c, err := profile.Start(memory)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	whole := memory[:profile.Used(memory)]
	full := bytes.Clone(whole)
	full[24] = 1
	damaged := bytes.Clone(whole)
	damaged[profile.Head+8+30] ^= 0xff // in the first part
	var out bytes.Buffer
	warnings, err := Profiles(&out, []Rank{
		{Rank: 0, Node: "a", Profile: whole}, {Rank: 1, Node: "a"}, {Rank: 2, Node: "b", Profile: full},
		{Rank: 3, Node: "b", Profile: damaged},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ranks 1 wrote no profile", "the profiles of ranks 2 end early", "the profile of rank 3 is left out: ",
	} {
		if !slices.ContainsFunc(warnings, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("warnings %q, want %q", warnings, want)
		}
	}
	p, err := pprof.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	if !p.HasFunctions() {
		t.Error("pprof would look for names in its own file, as the first part, without a sample, has none")
	}
	goroutines := map[string]int64{}
	for _, s := range p.Sample {
		goroutines[s.Label["rank"][0]+s.Label["node"][0]] += s.Value[2]
	}
	if len(p.SampleType) != 3 || p.DefaultSampleType != "cpu" || goroutines["0a"] == 0 || goroutines["2b"] != goroutines["0a"] ||
		len(goroutines) != 2 {
		t.Errorf("%v: goroutines %v", p.SampleType, goroutines)
	}
	if _, err := Profiles(&out, []Rank{{Rank: 1}}); err == nil {
		t.Error("no profile and no error")
	}
}

// TestNamed: HasFunctions is set if all locations of a mapping have names, whatever the first part has.
func TestNamedMappings(t *testing.T) {
	name := []pprof.Line{{Function: &pprof.Function{Name: "main.main"}}}
	known, unused := new(pprof.Mapping), new(pprof.Mapping)
	part, none := &pprof.Mapping{HasFunctions: true}, &pprof.Mapping{HasFunctions: true}
	markNamedMappings(&pprof.Profile{
		Mapping: []*pprof.Mapping{known, part, none, unused},
		Location: []*pprof.Location{
			{Mapping: known, Line: name}, {Mapping: part, Line: name}, {Mapping: part}, {},
			{Mapping: none, Line: []pprof.Line{{Function: &pprof.Function{}}}},
		},
	})
	if !known.HasFunctions || part.HasFunctions || none.HasFunctions || !unused.HasFunctions {
		t.Errorf("known %v, in part %v, none %v, unused %v", known.HasFunctions, part.HasFunctions, none.HasFunctions,
			unused.HasFunctions)
	}
}
