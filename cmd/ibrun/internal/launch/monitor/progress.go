package monitor

import (
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// linesApart is the least time between two lines of progress.
const lineInterval = 5 * time.Second

// progressFilter decides what of the progress of ranks is shown, and how much time is left. The zero value shows a bar.
type progressFilter struct {
	asLines bool // where there is no terminal

	first, shown   protocol.Progress
	began, shownAt time.Time // of these
}

// next takes in what the ranks say and returns what to show, or nil.
func (m *progressFilter) next(p protocol.Progress, at time.Time) *protocol.Progress {
	if p.Total == 0 {
		return nil
	}
	if m.first.Total != p.Total || p.Done < m.first.Done { // it has begun, or another part of it has
		m.first, m.began = p, at
	}
	if done, took := p.Done-m.first.Done, at.Sub(m.began); done > 0 && p.Done < p.Total {
		p.Remaining = time.Duration(float64(took) / float64(done) * float64(p.Total-p.Done))
	}
	if p.Done == m.shown.Done && p.Total == m.shown.Total || m.asLines && m.shown.Total != 0 && at.Sub(m.shownAt) < lineInterval {
		return nil
	}
	m.shown, m.shownAt = p, at
	return &p
}

// last is what is left to show in a line when the job ends and ranks have come so far, or nil.
func (m *progressFilter) last(p protocol.Progress) *protocol.Progress {
	if !m.asLines || p.Done == m.shown.Done && p.Total == m.shown.Total {
		return nil
	}
	return &p
}
