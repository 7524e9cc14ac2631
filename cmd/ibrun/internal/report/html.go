package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

// How much the page shows. The JSON has all.
const (
	pageRanks = 1024 // lines of the table
	pageOps   = 200
	pagePairs = 100
)

// HTML writes one page that needs nothing else: no network, no other file, no script.
func (r *Report) HTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"duration": duration, "size": func(n uint64) string { return size(float64(n)) }, "count": count, "percent": percent,
		"class": class, "quantile": quantile, "peer": peer, "join": strings.Join, "kind": kindName, "plural": plural,
		"clean": clean, "share": share, "bindings": bindings,
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("report: its page: %w", err)
	}
	var b bytes.Buffer // so that a page is whole or not there
	if err := t.Execute(&b, r.page()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// page is what the template shows.
type page struct {
	*Report
	Shown  []RankLine // of Ranks
	ByTime []Operation
	Heavy  []Pair
	Bars   bars
	Spans  spans
	Heat   heat
}

func (r *Report) page() *page {
	p := &page{Report: r, Shown: r.Ranks[:min(len(r.Ranks), pageRanks)], Bars: r.bars(), Heat: r.heat()}
	p.ByTime = slices.Clone(r.Operations)
	slices.SortStableFunc(p.ByTime, func(a, b Operation) int { return compare(b.Time, a.Time) })
	p.ByTime = p.ByTime[:min(len(p.ByTime), pageOps)]
	p.Spans = newSpans(p.ByTime)
	p.Heavy = r.heaviest(pagePairs)
	return p
}

// Command is the programs as they were started.
func (r *Report) Command() string {
	var parts []string
	for _, p := range r.Job.Programs {
		parts = append(parts, fmt.Sprintf("-n %d %s", p.Ranks, clean(strings.Join(p.Args, " "))))
	}
	return strings.Join(parts, " : ")
}

// More is how many ranks are not shown, and PairCount how many pairs there are.
func (p *page) More() int         { return len(p.Ranks) - len(p.Shown) }
func (p *page) PairCount() uint64 { return uint64(len(p.Pairs)) }

// Where is the name of the node of a rank.
func (r *Report) Where(l RankLine) string { return clean(r.Nodes[l.Node].Name) }

// Uneven is the imbalance of the ports of a node.
func (n Node) Uneven() []Uneven { return Imbalance(n.Ports) }
