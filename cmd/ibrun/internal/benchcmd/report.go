package benchcmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/internal/printable"
)

// line is the comparison of one size with one peer. The package comment documents its JSON form.
type line struct {
	Op       string     `json:"op"`
	Ranks    int        `json:"ranks"`
	Size     int        `json:"size"`
	Unit     bench.Unit `json:"unit"`
	Ours     float64    `json:"ours"`
	Peer     float64    `json:"peer"`
	PeerName string     `json:"peer_name"`
	Ratio    float64    `json:"ratio"`
	Provider string     `json:"provider,omitempty"` // of package verbs
	Hint     string     `json:"hint,omitempty"`     // ours with it, the peer without

	PeerVersion string `json:"peer_version,omitempty"` // of versus
	Transport   string `json:"transport,omitempty"`
	Goroutines  int    `json:"goroutines,omitempty"` // of each rank, that make round trips at once
	// Of a comparison of protocols, algorithms or settings: the protocol or algorithm that was chosen, the 95 % interval of the
	// ratio, whether messages are written before they are sent, and the figure of each.
	Chosen     string             `json:"chosen,omitempty"`
	Low        float64            `json:"low,omitempty"`
	High       float64            `json:"high,omitempty"`
	Written    bool               `json:"written,omitempty"`
	Protocols  map[string]float64 `json:"protocols,omitempty"`
	Algorithms map[string]float64 `json:"algorithms,omitempty"`
	Settings   map[string]float64 `json:"settings,omitempty"` // of the transport, as VARIABLE=VALUE; ours has none
}

// details returns what the table shows after the ratio.
func (l *line) details() string {
	var words []string
	if l.Low != 0 {
		words = append(words, fmt.Sprintf("[%.2f %.2f]", l.Low, l.High))
	}
	if l.Chosen != "" {
		words = append(words, "chosen: "+l.Chosen)
	}
	if l.Written {
		words = append(words, "written")
	}
	for _, word := range []string{l.Provider, l.Hint} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

func newLine(op string, ranks, size int, unit bench.Unit, ours, peer float64, peerName string) line {
	return line{Op: op, Ranks: ranks, Size: size, Unit: unit, Ours: roundDigits(ours), Peer: roundDigits(peer), PeerName: peerName,
		Ratio: roundDigits(ratio(unit, ours, peer))}
}

// report prints the lines of a comparison as they come, and a summary.
type report struct {
	w             io.Writer
	json          bool
	nameWidth     int    // of the column for the names of peers; 0: 8
	baseline      string // what ours is compared with; empty: the better peer at each size
	headerPrinted bool
	lines         []line
	groups        []string               // operations with rank count, in the order in which they came
	ratios        map[string][]sizeRatio // by group
}

// sizeRatio is the ratio to the best peer at one size.
type sizeRatio struct {
	size  int
	ratio float64
}

// ratio returns a ratio that is above 1 if ours is better.
func ratio(unit bench.Unit, ours, peer float64) float64 {
	if unit.MoreIsBetter() {
		return ours / peer
	}
	return peer / ours
}

// point prints one line.
func (r *report) point(l line) error {
	r.lines = append(r.lines, l)
	r.addRatio(l)
	if r.json {
		if err := json.NewEncoder(printable.NewJSONWriter(r.w)).Encode(l); err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
		return nil
	}
	if !r.headerPrinted {
		r.headerPrinted = true
		fmt.Fprintf(r.w, "%-14s %5s %9s  %5s %12s %12s  %-*s %6s\n", "op", "ranks", "size", "unit", "ours", "peer", r.width(), "",
			"ratio")
	}
	_, err := fmt.Fprintf(r.w, "%-14s %5d %9s  %5s %12s %12s  %-*s %6.2f%s\n", l.Op, l.Ranks, bench.FormatSize(l.Size), l.Unit,
		bench.FormatFigure(l.Ours), bench.FormatFigure(l.Peer), r.width(), l.PeerName, l.Ratio, withPrefix("  ", l.details()))
	if err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// width returns the width of the column for the names of peers.
func (r *report) width() int { return cmp.Or(r.nameWidth, 8) }

// addRatio stores the ratio to the best peer of each size.
func (r *report) addRatio(l line) {
	if r.ratios == nil {
		r.ratios = map[string][]sizeRatio{}
	}
	key := fmt.Sprintf("%s, %d ranks%s", l.Op, l.Ranks, withPrefix(", ", l.Provider))
	if l.Written {
		key += ", written"
	}
	if r.ratios[key] == nil {
		r.groups = append(r.groups, key)
	}
	list := r.ratios[key]
	if n := len(list); n > 0 && list[n-1].size == l.Size {
		list[n-1].ratio = min(list[n-1].ratio, l.Ratio)
		return
	}
	r.ratios[key] = append(list, sizeRatio{l.Size, l.Ratio})
}

// printSummary prints the mean and the worst ratio of each operation and rank count.
func (r *report) printSummary(w io.Writer) error {
	for i, key := range r.groups {
		if i == 0 {
			fmt.Fprintf(w, "\nratio to %s:\n", cmp.Or(r.baseline, "the better peer at each size"))
		}
		list := r.ratios[key]
		worst := slices.MinFunc(list, func(a, b sizeRatio) int { return int(math.Copysign(1, a.ratio-b.ratio)) })
		logs := 0.0
		for _, s := range list {
			logs += math.Log(s.ratio)
		}
		mean := math.Exp(logs / float64(len(list)))
		_, err := fmt.Fprintf(w, "  %-24s %5.2f geometric mean, %5.2f worst (%s)\n",
			key, mean, worst.ratio, bench.FormatSize(worst.size))
		if err != nil {
			return fmt.Errorf("writing the summary: %w", err)
		}
	}
	return nil
}

// withPrefix returns prefix and word, or an empty string if word is empty.
func withPrefix(prefix, word string) string {
	if word == "" {
		return ""
	}
	return prefix + word
}

// roundDigits rounds to five significant digits, because measurements are not more exact.
func roundDigits(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 5, 64), 64)
	if err != nil {
		return x // infinite
	}
	return y
}
