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

// The values of a sample: those of a CPU profile, and that of one of goroutines. Either has zeros for the other.
func sampleTypes() []*pprof.ValueType {
	return []*pprof.ValueType{
		{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}, {Type: "goroutine", Unit: "count"},
	}
}

// Profiles writes the profiles of all ranks as one: CPU time, and the goroutines that each rank had last, with labels rank and
// node.
func Profiles(w io.Writer, ranks []Rank) (told []string, err error) {
	var all []*pprof.Profile
	var without, full []int
	var longest int64
	for _, r := range ranks {
		list, err := r.profiles()
		switch {
		case errors.Is(err, profile.ErrEmpty):
			without = append(without, r.Rank)
		case errors.Is(err, profile.ErrFull):
			full = append(full, r.Rank)
		case err != nil:
			told = append(told, fmt.Sprintf("the profile of rank %d is left out: %v", r.Rank, err))
		}
		var took int64
		for _, p := range list {
			took += p.DurationNanos
		}
		longest = max(longest, took)
		all = append(all, list...)
	}
	if len(without) > 0 {
		told = append(told, fmt.Sprintf("ranks %s have left none: they run no package mpi, or ended before the first part did",
			hw.FormatList(without)))
	}
	if len(full) > 0 {
		told = append(told, fmt.Sprintf("the profiles of ranks %s end early: their memory was full", hw.FormatList(full)))
	}
	if len(all) == 0 {
		return told, errors.New("no rank has left a profile")
	}
	merged, err := pprof.Merge(all)
	if err != nil {
		return told, fmt.Errorf("merge profiles: %w", err)
	}
	named(merged)
	merged.DurationNanos = longest // and not that of all ranks one after the other
	merged.DefaultSampleType = "cpu"
	return told, merged.Write(w)
}

// named says of each mapping whether all its locations have names. Merge goes by the first part, and a part without a sample
// says no, whereupon pprof takes the names of all from a file of that path on the machine where it runs.
func named(p *pprof.Profile) {
	for _, m := range p.Mapping {
		m.HasFunctions = !slices.ContainsFunc(p.Location, func(l *pprof.Location) bool {
			return l.Mapping == m && (len(l.Line) == 0 || l.Line[0].Function.Name == "")
		})
	}
}

// profiles returns the profiles of a rank, in a form in which all can be merged.
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
		if err := r.widen(p, part.Kind); err != nil {
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

// widen gives a profile the values of both kinds, and labels.
func (r *Rank) widen(p *pprof.Profile, k profile.Kind) error {
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
