package benchcmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/ibrun/ibrun/bench"
)

// line is one point of a comparison with one peer. Its JSON form is the one promised in the package comment.
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
}

func newLine(op string, ranks, size int, unit bench.Unit, ours, peer float64, peerName string) line {
	return line{Op: op, Ranks: ranks, Size: size, Unit: unit, Ours: digits(ours), Peer: digits(peer), PeerName: peerName,
		Ratio: digits(ratio(unit, ours, peer))}
}

// report prints the points of a comparison as they come, and sums them up.
type report struct {
	w       io.Writer
	json    bool
	than    string // what ours is compared with; empty: the better peer
	headed  bool
	points  []string              // op and ranks, in the order they came
	against map[string][]standing // by those
}

// standing is how one point compares with the best peer there.
type standing struct {
	size  int
	ratio float64
}

// ratio is above 1 where ours is better.
func ratio(unit bench.Unit, ours, peer float64) float64 {
	if unit.MoreIsBetter() {
		return ours / peer
	}
	return peer / ours
}

// point prints one line.
func (r *report) point(l line) error {
	r.note(l)
	if r.json {
		if err := json.NewEncoder(r.w).Encode(l); err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
		return nil
	}
	if !r.headed {
		r.headed = true
		fmt.Fprintf(r.w, "%-14s %5s %9s  %5s %12s %12s  %-8s %6s\n", "op", "ranks", "size", "unit", "ours", "peer", "", "ratio")
	}
	_, err := fmt.Fprintf(r.w, "%-14s %5d %9s  %5s %12s %12s  %-8s %6.2f%s\n", l.Op, l.Ranks, bench.FormatSize(l.Size), l.Unit,
		bench.FormatFigure(l.Ours), bench.FormatFigure(l.Peer), l.PeerName, l.Ratio, after("  ", l.Provider+l.Hint))
	if err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// note keeps the ratio against the best peer of each point.
func (r *report) note(l line) {
	if r.against == nil {
		r.against = map[string][]standing{}
	}
	key := fmt.Sprintf("%s, %d ranks%s", l.Op, l.Ranks, after(", ", l.Provider))
	if r.against[key] == nil {
		r.points = append(r.points, key)
	}
	list := r.against[key]
	if n := len(list); n > 0 && list[n-1].size == l.Size {
		list[n-1].ratio = min(list[n-1].ratio, l.Ratio)
		return
	}
	r.against[key] = append(list, standing{l.Size, l.Ratio})
}

// end says in a line per operation and rank count how ours stands against what it is compared with.
func (r *report) end(w io.Writer) error {
	for i, key := range r.points {
		if i == 0 {
			fmt.Fprintf(w, "\nagainst %s:\n", cmp.Or(r.than, "the better peer at each point"))
		}
		list := r.against[key]
		worst := slices.MinFunc(list, func(a, b standing) int { return int(math.Copysign(1, a.ratio-b.ratio)) })
		logs := 0.0
		for _, s := range list {
			logs += math.Log(s.ratio)
		}
		mean := math.Exp(logs / float64(len(list)))
		_, err := fmt.Fprintf(w, "  %-24s %5.2f in the geometric mean, %5.2f at worst (%s)\n",
			key, mean, worst.ratio, bench.FormatSize(worst.size))
		if err != nil {
			return fmt.Errorf("writing the summary: %w", err)
		}
	}
	return nil
}

// after puts something before a word, if there is one.
func after(before, word string) string {
	if word == "" {
		return ""
	}
	return before + word
}

// digits rounds to five significant digits: more were never measured.
func digits(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 5, 64), 64)
	if err != nil {
		return x // infinite: it stays so
	}
	return y
}
