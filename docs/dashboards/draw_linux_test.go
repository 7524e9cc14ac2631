package dashboards

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Sizes of a picture: panels stand two in a row.
const (
	panelWidth  = 480
	panelHeight = 218
	plotTop     = 34
	plotBottom  = 150
	plotLeft    = 62
	plotRight   = panelWidth - 14
)

// palette are the colours of lines, which repeat.
var palette = []string{"#3274d9", "#e0752d", "#37872d", "#8f3bb8", "#c4162a", "#1f9e9e", "#9a7d0a", "#5c6b7a"}

// line is one series of a panel.
type line struct {
	name   string
	points [][2]float64 // time and value
}

// draw asks for a minute of everything that a dashboard shows, and draws it. It leaves out the headings of rows, which show no
// data, and heatmaps, which are not lines.
func (p *prometheus) draw(t *testing.T, file string, d dashboard) {
	t.Helper()
	end := time.Now()
	begin := end.Add(-time.Minute)
	panels := slices.DeleteFunc(slices.Clone(d.Panels), func(p panel) bool { return p.Type == "row" || p.Type == "heatmap" })
	rows := (len(panels) + 1) / 2
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		2*panelWidth, rows*panelHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#f4f5f5"/>`+"\n")
	for i, panel := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%2*panelWidth, i/2*panelHeight)
		panel.draw(&b, p.lines(t, panel, begin, end), float64(begin.UnixMilli())/1000, float64(end.UnixMilli())/1000)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lines asks for all series of a panel.
func (p *prometheus) lines(t *testing.T, of panel, begin, end time.Time) (all []line) {
	t.Helper()
	for _, q := range of.Targets {
		var data struct{ Result []series }
		v := url.Values{"query": {q.query()}, "start": {fmt.Sprint(begin.Unix())}, "end": {fmt.Sprint(end.Unix())}, "step": {"1"}}
		if err := p.ask("query_range", v, &data); err != nil {
			t.Fatal(err)
		}
		for _, s := range data.Result {
			l := line{name: regexp.MustCompile(`\{\{(\w+)\}\}`).ReplaceAllStringFunc(q.LegendFormat, func(label string) string {
				return s.Metric[strings.Trim(label, "{}")]
			})}
			for _, v := range s.Values {
				if y, err := strconv.ParseFloat(v[1].(string), 64); err == nil && !math.IsNaN(y) {
					l.points = append(l.points, [2]float64{v[0].(float64), y})
				}
			}
			if len(l.points) > 0 {
				all = append(all, l)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.name, b.name) })
	return all
}

// draw writes a panel of the time from begin to end, in seconds.
func (p panel) draw(b *strings.Builder, lines []line, begin, end float64) {
	fmt.Fprintf(b, `<rect x="4" y="4" width="%d" height="%d" rx="3" fill="white" stroke="#d8d9da"/>`, panelWidth-8, panelHeight-8)
	fmt.Fprintf(b, `<text x="14" y="22" font-weight="bold" fill="#333">%s</text>`+"\n", html.EscapeString(p.Title))
	top := 0.0
	for _, l := range lines {
		for _, v := range l.points {
			top = max(top, v[1])
		}
	}
	top = round(top)
	const ticks = 4
	for i := range ticks + 1 {
		v := top * float64(i) / ticks
		y := plotBottom - (plotBottom-plotTop)*i/ticks
		fmt.Fprintf(b, `<path d="M%d %dH%d" stroke="#e6e6e6"/><text x="%d" y="%d" text-anchor="end" fill="#666">%s</text>`+"\n",
			plotLeft, y, plotRight, plotLeft-6, y+4, format(v, p.FieldConfig.Defaults.Unit))
	}
	for i, l := range lines {
		colour := palette[i%len(palette)]
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, colour)
		for _, v := range l.points {
			fmt.Fprintf(b, "%.1f,%.1f ", plotLeft+(v[0]-begin)/(end-begin)*(plotRight-plotLeft), plotBottom-v[1]/top*(plotBottom-plotTop))
		}
		b.WriteString(`"/>` + "\n")
	}
	const perRow, rows = 3, 3 // of the legend
	for i, l := range lines[:min(len(lines), perRow*rows)] {
		if l.name == "" { // the only line, which the title names
			continue
		}
		x, y := 16+i%perRow*152, plotBottom+24+i/perRow*17
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="10" height="3" fill="%s"/><text x="%d" y="%d" fill="#333">%s</text>`+"\n",
			x, y-4, palette[i%len(palette)], x+14, y, html.EscapeString(l.name))
	}
}

// round is the least of 1, 2, 4, 5 and 10 times a power of ten that is not below v; of 0 it is 1.
func round(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 4, 5} {
		if n*power >= v {
			return n * power
		}
	}
	return 10 * power
}

// format writes a value in a unit of Grafana.
func format(v float64, unit string) string {
	scaled := func(v float64, unit string, step float64, prefixes ...string) string {
		i := 0
		for ; i+1 < len(prefixes) && v >= step; i++ {
			v /= step
		}
		return strings.TrimSpace(fmt.Sprintf("%.3g %s%s", v, prefixes[i], unit))
	}
	switch unit {
	case "s":
		return scaled(v*1e9, "s", 1000, "n", "µ", "m", "")
	case "percentunit":
		return fmt.Sprintf("%.3g %%", v*100)
	case "bytes":
		return scaled(v, "B", 1024, "", "Ki", "Mi", "Gi")
	case "Bps":
		return scaled(v, "B/s", 1000, "", "k", "M", "G")
	case "ops":
		return scaled(v, "/s", 1000, "", "k", "M", "G")
	}
	return scaled(v, "", 1000, "", "k", "M", "G")
}
