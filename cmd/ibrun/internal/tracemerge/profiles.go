package tracemerge

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	pprof "github.com/google/pprof/profile"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/perf/profile"
)

// sampleTypes returns the values of a sample: two of a CPU profile and one of a goroutine profile. Samples of one kind have zeros
// for the other.
func sampleTypes() []*pprof.ValueType {
	return []*pprof.ValueType{
		{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}, {Type: "goroutine", Unit: "count"},
	}
}

// Profiles writes one profile with the profiles of all ranks: CPU time, and the last goroutine profile of each rank. Samples have
// the labels rank and node.
func Profiles(w io.Writer, ranks []Rank) (warnings []string, err error) {
	var all []*pprof.Profile
	var missing, full []int
	var longest int64
	for _, r := range ranks {
		list, err := r.profiles()
		switch {
		case errors.Is(err, profile.ErrEmpty):
			missing = append(missing, r.Rank)
		case errors.Is(err, profile.ErrFull):
			full = append(full, r.Rank)
		case err != nil:
			warnings = append(warnings, fmt.Sprintf("the profile of rank %d is left out: %v", r.Rank, err))
		}
		var took int64
		for _, p := range list {
			took += p.DurationNanos
		}
		longest = max(longest, took)
		all = append(all, list...)
	}
	if len(missing) > 0 {
		warnings = append(warnings, fmt.Sprintf("ranks %s wrote no profile: "+
			"they do not use package mpi, or ended before the first part was complete",
			hw.FormatList(missing)))
	}
	if len(full) > 0 {
		warnings = append(warnings, fmt.Sprintf("the profiles of ranks %s end early: their memory was full", hw.FormatList(full)))
	}
	if len(all) == 0 {
		return warnings, errors.New("no rank wrote a profile")
	}
	merged, err := pprof.Merge(all)
	if err != nil {
		return warnings, fmt.Errorf("merge profiles: %w", err)
	}
	markNamedMappings(merged)
	merged.DurationNanos = longest // Merge adds up the durations, but the ranks ran at the same time
	merged.DefaultSampleType = "cpu"
	return warnings, merged.Write(w)
}

// markNamedMappings sets HasFunctions of each mapping whose locations all have names. Merge takes it from the first part, where
// it is unset if that part has no samples. Then pprof would read all names from a file of the same path on its own machine.
func markNamedMappings(p *pprof.Profile) {
	for _, m := range p.Mapping {
		m.HasFunctions = !slices.ContainsFunc(p.Location, func(l *pprof.Location) bool {
			return l.Mapping == m && (len(l.Line) == 0 || l.Line[0].Function.Name == "")
		})
	}
}

// profiles returns the profiles of a rank, with the sample types and labels of the merged profile.
func (r *Rank) profiles() (list []*pprof.Profile, err error) {
	if len(r.Profile) == 0 {
		return nil, profile.ErrEmpty
	}
	parts, errRead := profile.Read(r.Profile)
	if errRead != nil && !errors.Is(errRead, profile.ErrFull) {
		return nil, errRead
	}
	var stacks *pprof.Profile
	for _, part := range parts {
		p, err := pprof.ParseData(part.Data)
		if err != nil {
			return nil, err
		}
		if err := r.unifySamples(p, part.Kind); err != nil {
			return nil, err
		}
		if part.Kind == profile.Goroutines {
			stacks = p
		} else {
			list = append(list, p)
		}
	}
	if stacks != nil {
		list = append(list, stacks)
	}
	if len(list) == 0 {
		return nil, profile.ErrEmpty
	}
	return list, errRead
}

// unifySamples gives a profile the sample types of both kinds and the labels.
func (r *Rank) unifySamples(p *pprof.Profile, k profile.Kind) error {
	types := sampleTypes()
	from, to := 0, 2
	if k == profile.Goroutines {
		from, to = 2, 3
	}
	if len(p.SampleType) != to-from {
		return fmt.Errorf("a profile of kind %d with %d values, want %d", k, len(p.SampleType), to-from)
	}
	for _, s := range p.Sample {
		wide := make([]int64, len(types))
		copy(wide[from:to], s.Value)
		s.Value = wide
	}
	p.SampleType, p.PeriodType, p.DefaultSampleType = types, types[1], ""
	if k == profile.Goroutines {
		p.Period, p.DurationNanos = 0, 0
	}
	p.SetLabel("rank", []string{strconv.Itoa(r.Rank)})
	p.SetLabel("node", []string{r.Node})
	return nil
}
