package output

import (
	"strings"

	"golang.org/x/term"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// progressBar returns a line of less than that many columns.
func progressBar(p *protocol.Progress, columns int) string {
	text := p.String()
	room := min(columns-len(text)-len("[] ")-1, 40)
	if room < 5 {
		return text[:max(min(len(text), columns-1), 0)]
	}
	full := int(p.Fraction() * float64(room))
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "] " + text
}

// DrawBar draws a progress bar on standard error, a terminal, in place of the previous bar. It does not wait for the terminal:
// while the terminal accepts no output, all bars but the first are dropped.
func (m *Merger) DrawBar(p *protocol.Progress) {
	if m.pendingBar == nil {
		m.pendingBar = make(chan *protocol.Progress, 1)
		go func() {
			for p := range m.pendingBar {
				columns, _, err := term.GetSize(int(m.Stderr.file.Fd()))
				if err != nil || columns == 0 { // the terminal does not know its width
					columns = 80
				}
				m.Stderr.setBar(progressBar(p, columns))
			}
		}()
	}
	select {
	case m.pendingBar <- p:
	default:
	}
}

// EndBar removes the bar. No bar is drawn afterwards.
func (m *Merger) EndBar() { m.Stderr.endBar() }
