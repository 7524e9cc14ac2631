package launch

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/term"
)

// Progress is how far ranks say they are, together.
type Progress struct {
	Done, Total uint64
	Remaining   time.Duration `json:"Left"` // until the end at the rate so far; 0: nobody knows
}

// String is "45 % (9 of 20), about 1m10s left".
func (p *Progress) String() string {
	text := fmt.Sprintf("%d %% (%d of %d)", int(p.Fraction()*100), p.Done, p.Total)
	if p.Remaining >= time.Second {
		text += fmt.Sprintf(", about %v left", p.Remaining.Round(time.Second))
	}
	return text
}

// Fraction is from 0 to 1.
func (p *Progress) Fraction() float64 {
	if p.Total == 0 {
		return 0
	}
	return min(float64(p.Done)/float64(p.Total), 1)
}

// bar is one line of less than that many columns.
func progressBar(p *Progress, columns int) string {
	text := p.String()
	room := min(columns-len(text)-len("[] ")-1, 40)
	if room < 5 {
		return text[:max(min(len(text), columns-1), 0)]
	}
	full := int(p.Fraction() * float64(room))
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "] " + text
}

// eraseLine erases what stands right of the cursor. A bar leaves the cursor at its left end, so whoever writes a line to a
// terminal writes this first, and need not know whether there is a bar.
const EraseLine = "\x1b[K"

// drawBar has a bar drawn on standard error, a terminal, instead of the last one. It never waits for the terminal: of bars that
// come while it takes nothing, all but the first are left out.
func (o *output) drawBar(p *Progress) {
	if o.pendingBar == nil {
		o.pendingBar = make(chan *Progress, 1)
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

// setBar draws what stands below all lines from now on.
func (k *lineWriter) setBar(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.barEnded {
		return
	}
	k.bar = text
	_ = k.redrawBar() // that the terminal has gone is seen where it matters
}

// endBar removes the bar for good.
func (k *lineWriter) endBar() {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.eraseBar() // as above
	k.bar, k.barEnded = "", true
}

// eraseBar makes room for a line. The caller holds mu, as in redrawBar.
func (k *lineWriter) eraseBar() error {
	if k.bar == "" || k.unfinished != nil {
		return nil
	}
	return k.write([]byte(EraseLine))
}

// redrawBar puts the bar below what has been written.
func (k *lineWriter) redrawBar() error {
	if k.bar == "" || k.unfinished != nil {
		return nil
	}
	return k.write([]byte(k.bar + EraseLine + "\r"))
}
