package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/internal/printable"
)

//go:embed page.html
var pageText string

// The limits of what the page shows. The JSON has everything.
const (
	pageRanks = 1024 // lines of the table
	pageOps   = 200
	pagePairs = 100
)

// HTML writes one page that needs no network, no other file and no script.
func (r *Report) HTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"duration": duration, "size": func(n uint64) string { return size(float64(n)) }, "count": count, "percent": percent,
		"class": formatClass, "length": formatLength, "quantile": quantile, "peer": peerName, "join": strings.Join, "kind": kindName,
		"plural": plural, "clean": clean, "share": share, "bindings": bindings,
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("report: parsing the page template: %w", err)
	}
	var b bytes.Buffer // so that a failure writes nothing instead of half a page
	if err := t.Execute(&b, r.page()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = io.WriteString(w, printable.Text(b.String()))
	return err
}

// page is the data of the template.
type page struct {
	*Report
	ShownRanks   []RankLine // the first of Ranks
	ByTime       []Operation
	LargestPairs []Pair
	TimeChart    timeChart
	LatencyChart latencyChart
	HeatMap      heatMap
}

func (r *Report) page() *page {
	p := &page{Report: r, ShownRanks: r.Ranks[:min(len(r.Ranks), pageRanks)], TimeChart: r.newTimeChart(), HeatMap: r.newHeatMap()}
	p.ByTime = slices.Clone(r.Operations)
	slices.SortStableFunc(p.ByTime, func(a, b Operation) int { return compare(b.Time, a.Time) })
	p.ByTime = p.ByTime[:min(len(p.ByTime), pageOps)]
	p.LatencyChart = newLatencyChart(p.ByTime)
	p.LargestPairs = r.largestPairs(pagePairs)
	return p
}

// Command returns the programs as they were started.
func (r *Report) Command() string {
	var parts []string
	for _, p := range r.Job.Programs {
		parts = append(parts, fmt.Sprintf("-n %d %s", p.Ranks, clean(strings.Join(p.Args, " "))))
	}
	return strings.Join(parts, " : ")
}

// HiddenRanks returns the number of ranks that are not shown, and PairCount the number of all pairs.
func (p *page) HiddenRanks() int  { return len(p.Ranks) - len(p.ShownRanks) }
func (p *page) PairCount() uint64 { return uint64(len(p.Pairs)) }

// NodeName returns the name of the node of a rank.
func (r *Report) NodeName(l RankLine) string { return clean(r.Nodes[l.Node].Name) }

// PortImbalances returns the imbalances of the ports of a node.
func (n Node) PortImbalances() []PortImbalance { return Imbalance(n.Ports) }
