package agent

import (
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"golang.org/x/term"
)

// bar is one line of less than that many columns.
func progressBar(p *protocol.Progress, columns int) string {
	text := p.String()
	room := min(columns-len(text)-len("[] ")-1, 40)
	if room < 5 {
		return text[:max(min(len(text), columns-1), 0)]
	}
	full := int(p.Fraction() * float64(room))
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "] " + text
}

// drawBar has a bar drawn on standard error, a terminal, instead of the last one. It never waits for the terminal: of bars that
// come while it takes nothing, all but the first are left out.
func (o *output) drawBar(p *protocol.Progress) {
	if o.pendingBar == nil {
		o.pendingBar = make(chan *protocol.Progress, 1)
		go func() {
			for p := range o.pendingBar {
				columns, _, err := term.GetSize(int(o.stderr.file.Fd()))
				if err != nil || columns == 0 { // nobody has told the terminal how wide it is
					columns = 80
				}
				o.stderr.setBar(progressBar(p, columns))
			}
		}()
	}
	select {
	case o.pendingBar <- p:
	default:
	}
}
