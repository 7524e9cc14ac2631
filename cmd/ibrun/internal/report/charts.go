package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The dimensions of the charts: widths and heights in pixels, limits in rows or cells.
const (
	chartWidth     = 900
	labelWidth     = 170
	plotWidth      = chartWidth - labelWidth - 30
	rowHeight      = 18
	maxBars        = 128 // rows of a chart; with more ranks, one row is the mean of several
	maxLatencyRows = 24
	maxCells       = 48 // on a side of the matrix
)

// timeChart is a bar for each rank with the shares of its time: waiting, otherwise in MPI, and outside MPI.
type timeChart struct {
	Width, Height int
	Each          int // ranks in one bar
	Rows          []timeRow
}

type timeRow struct {
	Y, Text           int // of the bar, and of the base line of its label
	Label, Tip        string
	Wait, Calls, Work float64 // widths
	CallsX, WorkX     float64
	Slow              bool
}

// groupSize returns the size of the groups, if n ranks are divided into at most maxGroups groups of equal size.
func groupSize(n, maxGroups int) int { return max((n+maxGroups-1)/maxGroups, 1) }

func (r *Report) newTimeChart() timeChart {
	b := timeChart{Width: chartWidth, Each: groupSize(len(r.Ranks), maxBars)}
	for first := 0; first < len(r.Ranks); first += b.Each {
		some := r.Ranks[first:min(first+b.Each, len(r.Ranks))]
		var wait, in, n float64
		slow := false
		for i := range some {
			l := &some[i]
			slow = slow || r.Slowest != nil && r.Slowest.Rank == l.Rank
			if l.Recorded() {
				n++
				wait += min(l.WaitingShare, 1)
				in += min(max(l.MPIShare, l.WaitingShare), 1)
			}
		}
		row := timeRow{Y: len(b.Rows) * rowHeight, Label: groupLabel(first, len(some)), Slow: slow, Tip: "no record"}
		row.Text = row.Y + rowHeight - 5
		if n > 0 {
			wait, in = wait/n, in/n
			row.Wait, row.Calls, row.Work = wait*plotWidth, (in-wait)*plotWidth, (1-in)*plotWidth
			row.Tip = fmt.Sprintf("%s: waiting %s, otherwise in MPI %s, outside %s", row.Label, percent(wait), percent(in-wait),
				percent(1-in))
		}
		row.CallsX, row.WorkX = labelWidth+row.Wait, labelWidth+row.Wait+row.Calls
		b.Rows = append(b.Rows, row)
	}
	b.Height = len(b.Rows)*rowHeight + 4
	return b
}

func groupLabel(first, n int) string {
	if n == 1 {
		return fmt.Sprintf("rank %d", first)
	}
	return fmt.Sprintf("ranks %d-%d", first, first+n-1)
}

// latencyChart shows the latencies of operations on one logarithmic axis.
type latencyChart struct {
	Width, Height int
	Ticks         []tick
	Rows          []latencyRow
}

type tick struct {
	X     float64
	Label string
}

type latencyRow struct {
	Y, Text             int
	Label, Tip          string
	P50, P99, P999, Max float64 // x coordinates
}

// Top and Bottom are the y coordinates of the ends of the mark for the longest call.
func (r latencyRow) Top() int    { return r.Y - 5 }
func (r latencyRow) Bottom() int { return r.Y + 5 }

// Bottom is the y coordinate where the rows end and the labels of the axis begin.
func (s latencyChart) Bottom() int { return s.Height - rowHeight }

// newLatencyChart returns the chart of the first operations that were timed.
func newLatencyChart(ops []Operation) latencyChart {
	s := latencyChart{Width: chartWidth}
	var timed []Operation
	low, high := math.Inf(1), 1e-9
	for _, o := range ops {
		if o.P50 != nil && *o.P50 > 0 && len(timed) < maxLatencyRows {
			timed = append(timed, o)
			low, high = min(low, *o.P50), max(high, *o.Max, *o.P999)
		}
	}
	if len(timed) == 0 {
		return s
	}
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	to = max(to, from+1)
	x := func(exponent float64) float64 { return labelWidth + plotWidth*(exponent-from)/(to-from) }
	at := func(seconds *float64) float64 { return x(math.Log10(max(*seconds, low))) }
	for e := from; e <= to; e++ {
		label := duration(math.Pow(10, e))
		if number, unit, _ := strings.Cut(label, " "); unit != "" {
			label, _, _ = strings.Cut(number, ".")
			label += " " + unit
		}
		s.Ticks = append(s.Ticks, tick{x(e), label})
	}
	for i, o := range timed {
		row := latencyRow{Y: i*rowHeight + rowHeight/2, Text: i*rowHeight + rowHeight - 5, Label: o.Op, P50: at(o.P50), P99: at(o.P99),
			P999: at(o.P999), Max: at(o.Max)}
		if o.Bytes > 0 {
			row.Label += " " + formatClass(o.MaxBytes)
		}
		row.Tip = fmt.Sprintf("%s: p50 %s, p99 %s, p99.9 %s, max %s", row.Label, quantile(o.P50), quantile(o.P99), quantile(o.P999),
			quantile(o.Max))
		s.Rows = append(s.Rows, row)
	}
	s.Height = len(s.Rows)*rowHeight + rowHeight
	return s
}

// heatMap is the matrix of the bytes that ranks sent to each other. Rows are senders, columns are receivers.
type heatMap struct {
	Width, Height int
	Cell          int // length of the side of a cell
	Each          int // ranks in a row or column
	Rows          []heatLabel
	Columns       []heatLabel
	Cells         []heatCell
	Transports    []string // transports that occur, and "mixed"
}

type heatLabel struct {
	X, Y  int
	Label string
}

type heatCell struct {
	X, Y      int
	Transport string
	Opacity   float64 // 0 to 1
	Tip       string
}

// Side is the length of the side of the matrix.
func (h heatMap) Side() int { return h.Height - heatTop - 2 }

const heatLeft, heatTop = 70, 24

func (r *Report) newHeatMap() heatMap {
	n := len(r.Ranks)
	h := heatMap{Each: groupSize(n, maxCells)}
	side := (n + h.Each - 1) / h.Each
	h.Cell = max(min(400/max(side, 1), 40), 12)
	type cell struct {
		bytes, messages uint64
		transports      []string
	}
	cells, most := map[[2]int]*cell{}, uint64(1)
	for _, p := range r.Pairs {
		if p.From < 0 || p.To < 0 || p.From >= n || p.To >= n {
			continue
		}
		at := [2]int{p.From / h.Each, p.To / h.Each}
		if cells[at] == nil {
			cells[at] = &cell{}
		}
		c := cells[at]
		c.bytes += p.Bytes
		c.messages += p.Messages
		most = max(most, c.bytes)
		if !slices.Contains(c.transports, p.Transport) {
			c.transports = append(c.transports, p.Transport)
		}
	}
	if len(cells) == 0 {
		return h
	}
	h.Width, h.Height = heatLeft+side*h.Cell+2, heatTop+side*h.Cell+2
	for i := range side {
		every := max(1, (28+h.Cell-1)/h.Cell) // so that labels do not touch
		if i%every == 0 {
			label := fmt.Sprint(i * h.Each)
			h.Rows = append(h.Rows, heatLabel{heatLeft - 8, heatTop + i*h.Cell + h.Cell/2 + 4, label})
			h.Columns = append(h.Columns, heatLabel{heatLeft + i*h.Cell + h.Cell/2, heatTop - 8, label})
		}
		for j := range side {
			c := cells[[2]int{i, j}]
			if c == nil {
				continue
			}
			transport := c.transports[0]
			if len(c.transports) > 1 {
				transport = "mixed"
			}
			if !slices.Contains(h.Transports, transport) {
				h.Transports = append(h.Transports, transport)
			}
			tip := fmt.Sprintf("%s to %s: %s in %s messages by %s", groupLabel(i*h.Each, min(h.Each, n-i*h.Each)),
				groupLabel(j*h.Each, min(h.Each, n-j*h.Each)), size(float64(c.bytes)), count(c.messages),
				strings.Join(c.transports, "+"))
			h.Cells = append(h.Cells, heatCell{heatLeft + j*h.Cell, heatTop + i*h.Cell, transport,
				0.15 + 0.85*math.Sqrt(float64(c.bytes)/float64(most)), tip})
		}
	}
	return h
}
