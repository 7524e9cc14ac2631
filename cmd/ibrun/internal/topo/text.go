package topo

import (
	"fmt"
	"strings"
)

// columns is the width at which rows of cores are wrapped.
const columns = 100

// writeText draws the component and everything in it.
func (bx component) writeText(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s%s\n", indent, bx.title)
	indent += "  "
	width := 0
	for _, c := range bx.cores {
		width = max(width, len(c.label())+2)
	}
	line := ""
	for _, c := range bx.cores {
		if line != "" && len(indent)+len(line)+width > columns {
			fmt.Fprintf(b, "%s%s\n", indent, strings.TrimRight(line, " "))
			line = ""
		}
		line += fmt.Sprintf("%-*s", width, c.label())
	}
	if line != "" {
		fmt.Fprintf(b, "%s%s\n", indent, strings.TrimRight(line, " "))
	}
	for _, inner := range bx.children {
		inner.writeText(b, indent)
	}
	if len(bx.devices) > 0 && bx.kind == "machine" {
		fmt.Fprintf(b, "%sthe machine does not report where these are attached:\n", indent)
		indent += "  "
	}
	for _, d := range bx.devices {
		fmt.Fprintf(b, "%s%s\n", indent, d)
	}
}
