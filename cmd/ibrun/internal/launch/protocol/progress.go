package protocol

import (
	"fmt"
	"time"
)

// Progress is the sum of the progress that ranks report.
type Progress struct {
	Done, Total uint64
	Remaining   time.Duration `json:"Left"` // estimated from the rate so far; 0: unknown
}

// String returns a text such as "45 % (9 of 20), about 1m10s left".
func (p *Progress) String() string {
	text := fmt.Sprintf("%d %% (%d of %d)", int(p.Fraction()*100), p.Done, p.Total)
	if p.Remaining >= time.Second {
		text += fmt.Sprintf(", about %v left", p.Remaining.Round(time.Second))
	}
	return text
}

// Fraction returns the progress as a number from 0 to 1.
func (p *Progress) Fraction() float64 {
	if p.Total == 0 {
		return 0
	}
	return min(float64(p.Done)/float64(p.Total), 1)
}
