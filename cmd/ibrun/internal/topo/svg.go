package topo

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The dimensions of the drawing, in pixels.
const (
	margin      = 8
	lineHeight  = 18
	letterWidth = 7 // the width of one character of the font used
	cellHeight  = 2 * lineHeight
	rowCells    = 8 // cores in one row
	rowBoxes    = 4 // caches in one row
)

// colour returns the fill colour of a kind of component.
func colour(kind string) string {
	switch kind {
	case "package":
		return "#e8eef7"
	case "numa":
		return "#d5e8d4"
	case "die":
		return "#f0f0f0"
	case "cache":
		return "#fff2cc"
	case "device":
		return "#f8cecc"
	}
	return "#ffffff"
}

// rankColour returns a colour that differs from those of the neighbouring ranks.
func rankColour(rank int) string {
	return fmt.Sprintf("hsl(%d, 70%%, 75%%)", rank*137%360) // steps by the golden angle
}

// layout is a component with its position, relative to the component that contains it.
type layout struct {
	component
	x, y, w, h int
	children   []layout
	cellWidth  int // the width of one core
}

// computeLayout computes the size of a component and the positions of everything in it.
func computeLayout(bx component) layout {
	d := layout{component: bx, w: 2*margin + letterWidth*len(bx.title), h: margin + lineHeight}
	for _, c := range bx.cores {
		d.cellWidth = max(d.cellWidth, letterWidth*len(c.label())+margin, 40)
	}
	if n := len(bx.cores); n > 0 {
		d.w = max(d.w, 2*margin+min(n, rowCells)*d.cellWidth)
		d.h += (n+rowCells-1)/rowCells*cellHeight + margin
	}
	for _, line := range bx.devices {
		d.w = max(d.w, 4*margin+letterWidth*len(line))
	}
	x, row := margin, 0
	across := 1
	if bx.kind == "machine" || len(bx.children) > 0 && bx.children[0].kind == "cache" {
		across = rowBoxes
	}
	for i, inner := range bx.children {
		if i > 0 && i%across == 0 {
			d.h += row + margin
			x, row = margin, 0
		}
		in := computeLayout(inner)
		in.x, in.y = x, d.h
		x += in.w + margin
		row = max(row, in.h)
		d.w = max(d.w, x)
		d.children = append(d.children, in)
	}
	if row > 0 {
		d.h += row + margin
	}
	d.h += len(bx.devices) * (lineHeight + margin/2)
	if len(bx.devices) > 0 {
		d.h += margin
	}
	return d
}

// writeSVG writes the component as an SVG drawing.
func writeSVG(w io.Writer, bx component) error {
	d := computeLayout(bx)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" `+
		`font-size="11">`+"\n", d.w, d.h)
	d.draw(&b, 0, 0)
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (d layout) draw(b *strings.Builder, x, y int) {
	x, y = x+d.x, y+d.y
	rect(b, x, y, d.w, d.h, colour(d.kind))
	label(b, x+margin, y+lineHeight, d.title)
	top := y + margin + lineHeight
	for i, c := range d.cores {
		cx, cy := x+margin+i%rowCells*d.cellWidth, top+i/rowCells*cellHeight
		fill := "#ffffff"
		switch {
		case len(c.ranks) > 0:
			fill = rankColour(c.ranks[0])
		case c.unusable:
			fill = "#bbbbbb"
		}
		rect(b, cx, cy, d.cellWidth, cellHeight, fill)
		ranks := c.ranks
		c.ranks = nil
		label(b, cx+4, cy+lineHeight-4, c.label())
		if c.ranks = ranks; len(ranks) > 0 {
			label(b, cx+4, cy+cellHeight-6, c.rankLabel())
		}
	}
	for _, in := range d.children {
		in.draw(b, x, y)
	}
	bottom := y + d.h - margin - len(d.devices)*(lineHeight+margin/2)
	for i, line := range d.devices {
		dy := bottom + i*(lineHeight+margin/2)
		rect(b, x+margin, dy, d.w-2*margin, lineHeight, colour("device"))
		label(b, x+2*margin, dy+lineHeight-5, line)
	}
}

func rect(b *strings.Builder, x, y, w, h int, fill string) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="#444444"/>`+"\n", x, y, w, h, fill)
}

// label writes text with XML escapes: names come from the machine and may contain anything.
func label(b *strings.Builder, x, y int, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d">`, x, y)
	if err := xml.EscapeText(b, []byte(text)); err != nil {
		panic(err) // writing to a strings.Builder cannot fail
	}
	b.WriteString("</text>\n")
}
