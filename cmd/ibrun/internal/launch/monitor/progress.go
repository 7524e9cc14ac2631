package monitor

import (
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// lineInterval is the minimum time between two lines of progress.
const lineInterval = 5 * time.Second

// progressFilter decides which samples of the ranks' progress are shown, and estimates the remaining time. The zero value is
// for a progress bar.
type progressFilter struct {
	asLines bool // progress is shown as lines, since standard error is not a terminal

	first, shown   protocol.Progress
	began, shownAt time.Time // times of first and shown
}

// next processes a sample and returns what to show, or nil.
func (f *progressFilter) next(p protocol.Progress, at time.Time) *protocol.Progress {
	if p.Total == 0 {
		return nil
	}
	if f.first.Total != p.Total || p.Done < f.first.Done { // progress begins, or another part of the program
		f.first, f.began = p, at
	}
	if done, took := p.Done-f.first.Done, at.Sub(f.began); done > 0 && p.Done < p.Total {
		p.Remaining = time.Duration(float64(took) / float64(done) * float64(p.Total-p.Done))
	}
	if p.Done == f.shown.Done && p.Total == f.shown.Total || f.asLines && f.shown.Total != 0 && at.Sub(f.shownAt) < lineInterval {
		return nil
	}
	f.shown, f.shownAt = p, at
	return &p
}

// last returns what remains to be shown as a line when the job ends with progress p, or nil.
func (f *progressFilter) last(p protocol.Progress) *protocol.Progress {
	if !f.asLines || p.Done == f.shown.Done && p.Total == f.shown.Total {
		return nil
	}
	return &p
}
