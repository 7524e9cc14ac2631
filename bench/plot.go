package bench

import (
	"fmt"
	"io"
	"math"

	"github.com/guptarohit/asciigraph"
)

const (
	plotHeight = 15
	plotMargin = 14 // characters left of the curve: its scale
)

// Plot draws the figures of one operation over their sizes, with characters, at most width of them in a line. The
// vertical axis is logarithmic; so is the horizontal one when the sizes are a ladder. It takes two results to draw
// a line; with fewer it draws nothing.
func Plot(w io.Writer, results []Result, width int) error {
	if len(results) < 2 {
		return nil
	}
	curve := make([]float64, len(results))
	for i, r := range results {
		curve[i] = math.Log10(max(r.Value, 1e-6))
	}
	last := float64(len(results) - 1)
	size := func(x float64) string { return FormatSize(results[int(math.Round(min(max(x, 0), last)))].Size) }
	text := asciigraph.Plot(curve,
		asciigraph.Height(plotHeight),
		asciigraph.Width(max(width-plotMargin, 20)),
		asciigraph.YAxisValueFormatter(func(y float64) string { return FormatFigure(math.Pow(10, y)) }),
		asciigraph.XAxisRange(0, last),
		asciigraph.XAxisTickCount(min(len(results), max(2, width/16))),
		asciigraph.XAxisValueFormatter(size),
		asciigraph.Caption(fmt.Sprintf("%s among %d ranks, %s over message size", results[0].Op, results[0].Ranks, results[0].Unit)),
	)
	if _, err := fmt.Fprintln(w, text); err != nil {
		return fmt.Errorf("bench: drawing the plot: %w", err)
	}
	return nil
}
