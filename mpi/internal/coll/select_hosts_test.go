package coll

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"testing"
)

// tunedHosts are the hosts on which algorithms were measured, by what `ibrun bench tune --ranks 2,4,8 --json` printed there,
// without the fields that are not read. Each has cores processors, which the ranks share if there are more of them. Of a host
// that is partial only those sizes are kept at which the rules of that time lost, with the algorithm that they chose and the
// best one: so it can refute a rule, but does not confirm any.
var tunedHosts = []struct {
	file    string
	cores   int
	partial bool
}{
	{"amd-26-2.json", 2, false},
	{"intel-6-207.json", 2, true},
}

// tuned is a line of such a file: the times of algorithms, in microseconds.
type tuned struct {
	Op         string
	Ranks      int
	Size       int
	Algorithms map[string]float64
}

// name returns the collective, size and number of ranks.
func (x tuned) name() string {
	return fmt.Sprintf("%s of %d bytes between %d ranks", x.Op, x.Size, x.Ranks)
}

// chosen returns the name of the algorithm that the rules choose on a host with so many cores.
func (x tuned) chosen(cores int) (string, error) {
	c, immediate, ok := ParseCall(x.Op)
	if !ok {
		return "", fmt.Errorf("unknown collective %q", x.Op)
	}
	f := Direct
	if x.Ranks > cores {
		f |= Oversubscribed
	}
	if immediate {
		return ChooseImmediate(nil, c, x.Size, x.Ranks, f).Algorithm.TableName(), nil
	}
	return Choose(nil, c, x.Size, x.Ranks, true, f).Algorithm.TableName(), nil
}

// readTuned reads a file of testdata.
func readTuned(name string) (all []tuned, err error) {
	f, err := os.Open("testdata/tune/" + name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var x tuned
		if err := d.Decode(&x); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, x)
	}
}

// meanOf returns the geometric mean of ratios whose logarithms are given.
func meanOf(logs []float64) float64 {
	sum := 0.0
	for _, v := range logs {
		sum += v
	}
	return math.Exp(sum / float64(len(logs)))
}

// TestRulesOfHosts: on each host that was measured the rules reach 0.93 of the fastest algorithms in the mean, and 0.85 for each
// collective. No algorithm
// that was measured on several hosts is clearly faster on all of them together than the one that the rules choose. So a rule
// follows what hosts have in common, and a new file shows which rules were true on the earlier ones only.
func TestRulesOfHosts(t *testing.T) {
	type compared struct {
		hosts  int
		chosen string               // on the first host
		differ bool                 // another host has another choice, so that times cannot be compared
		others map[string][]float64 // logarithms of the ratios of the times of other algorithms to the chosen one, for each host
	}
	const all = "all collectives"
	seen := map[string]*compared{}
	for _, h := range tunedHosts {
		points, err := readTuned(h.file)
		if err != nil {
			t.Fatal(err)
		}
		logs := map[string][]float64{} // of the ratios, by collective, and of all
		for _, x := range points {
			chosen, err := x.chosen(h.cores)
			if err != nil {
				t.Fatalf("%s: %v", h.file, err)
			}
			at, ok := x.Algorithms[chosen]
			if !ok {
				t.Errorf("%s: %s: %s is chosen, and was not measured", h.file, x.name(), chosen)
				continue
			}
			c := seen[x.name()]
			if c == nil {
				c = &compared{chosen: chosen, others: map[string][]float64{}}
				seen[x.name()] = c
			}
			c.hosts++
			c.differ = c.differ || chosen != c.chosen
			best := at
			for name, other := range x.Algorithms {
				c.others[name] = append(c.others[name], math.Log(other/at))
				best = min(best, other)
			}
			for _, group := range []string{x.Op, all} {
				logs[group] = append(logs[group], math.Log(best/at))
			}
		}
		for group, values := range logs {
			want := 0.85
			if group == all {
				want = 0.93
			}
			mean := meanOf(values)
			t.Logf("%s: %s: %.3f of the fastest algorithms in the mean of %d points", h.file, group, mean, len(values))
			if !h.partial && mean < want {
				t.Errorf("%s: %s: the rules reach %.3f of the fastest algorithms in the mean, want %.2f", h.file, group, mean, want)
			}
		}
	}
	for point, c := range seen {
		for name, ratios := range c.others {
			if c.hosts < 2 || c.differ || len(ratios) < c.hosts {
				continue
			}
			if mean := meanOf(ratios); mean < 0.85 {
				t.Errorf("%s: %s takes %.2f of the time of what is chosen, in the mean of %d hosts", point, name, mean, c.hosts)
			}
		}
	}
}
