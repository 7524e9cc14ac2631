package tracemerge

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"github.com/ibrun/ibrun/perf"
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

// onePart returns what a rank has recorded that has one part of this kind.
func onePart(whole []byte, kind uint8, data []byte) []byte {
	b := binary.NativeEndian.AppendUint64(bytes.Clone(whole[:profile.Head]), uint64(len(data))<<8|uint64(kind))
	b = append(b, data...)
	binary.NativeEndian.PutUint64(b[16:], uint64(len(b)))
	return b
}

// nameless returns a CPU profile whose only line has no function.
func nameless(t testing.TB) []byte {
	t.Helper()
	mapping := &pprof.Mapping{ID: 1, File: "program"}
	at := &pprof.Location{ID: 1, Mapping: mapping, Line: []pprof.Line{{Line: 1}}}
	p := &pprof.Profile{SampleType: sampleTypes()[:2], PeriodType: sampleTypes()[1], Mapping: []*pprof.Mapping{mapping},
		Location: []*pprof.Location{at}, Sample: []*pprof.Sample{{Location: []*pprof.Location{at}, Value: []int64{1, 1}}}}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// FuzzRecordings: whatever another node has sent as the profile or the trace of its rank, it is merged or left out.
func FuzzRecordings(f *testing.F) {
	memory := make([]byte, profile.Bytes)
	c, err := profile.Start(memory)
	if err == nil {
		err = c.Stop()
	}
	if err != nil {
		f.Fatal(err)
	}
	whole := bytes.Clone(memory[:profile.Used(memory)])
	parts, err := profile.Read(whole)
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range parts {
		f.Add(uint8(p.Kind), p.Data, []byte(nil))
	}
	f.Add(uint8(profile.CPU), nameless(f), []byte(nil))
	r := newRecording(f, 0, 2)
	r.call(perf.Send, 10, 20, nil)
	f.Add(uint8(profile.CPU), []byte(nil), r.memory[:perf.TraceUsed(r.memory)])
	f.Fuzz(func(t *testing.T, kind uint8, data, trace []byte) {
		ranks := []Rank{{Rank: 0, Node: "a", Profile: whole, Trace: trace},
			{Rank: 1, Node: "b", Profile: onePart(whole, kind, data), Trace: trace}}
		_, _ = Profiles(io.Discard, ranks) // an error says that there is none
		_, _ = Timeline(io.Discard, ranks)
	})
}
