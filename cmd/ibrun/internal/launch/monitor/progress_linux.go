package monitor

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// sampleLoop samples the ranks regularly until the job ends. It records since when they have made
// no progress, and shows their reported progress or sends it to the coordinator. terminal means
// that standard error is a terminal that shows a progress bar.
func (m *Monitor) sampleLoop(terminal bool) {
	every := sampleInterval
	if terminal {
		every = barEvery
	}
	show := progressFilter{asLines: !terminal && m.reportProgress == nil}
	tick := time.NewTicker(every)
	defer tick.Stop()
	blind := false // it was printed that ranks cannot be read
	for {
		select {
		case <-m.ctx.Done():
			sum, _ := m.sampleProgress(time.Now()) // the loop has printed the error before
			if p := show.last(sum); p != nil && m.reportProgress == nil {
				m.printProgress(p)
			}
			return
		case now := <-tick.C:
			if err := m.showProgress(&show, now, terminal); err != nil && !blind {
				blind = true
				m.streams.Warn("some ranks cannot be monitored", console.Attrs{Error: err.Error()})
			}
		}
	}
}

// showProgress samples the ranks, and shows their progress or sends it to the coordinator if the
// filter wants it. It returns the reason why some ranks cannot be read.
func (m *Monitor) showProgress(show *progressFilter, now time.Time, terminal bool) error {
	m.reporting.Lock()
	defer m.reporting.Unlock()
	sum, err := m.sampleProgress(now)
	switch p := show.next(sum, now); {
	case p == nil:
	case m.reportProgress != nil:
		m.reportProgress(sum)
	case terminal:
		m.order(&protocol.Order{Bar: p})
	default:
		m.printProgress(p)
	}
	return err
}

func (m *Monitor) printProgress(p *protocol.Progress) {
	m.streams.Info("progress", console.Attrs{Done: &p.Done, Total: p.Total, RemainingSeconds: p.Remaining.Seconds(),
		Text: fmt.Sprintf("progress: %v", p)})
}

// sampleProgress samples the ranks of this node, and returns the sum of their progress and that of other nodes. The error is
// the reason why some ranks cannot be read.
func (m *Monitor) sampleProgress(now time.Time) (sum protocol.Progress, err error) {
	activities, err := m.mem.Activities()
	for i, p := range activities {
		m.watch.Observe(m.task.Ranks[i].Rank, p, now)
		sum.Done, sum.Total = sum.Done+p.Done, sum.Total+p.Total
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.remoteProgress {
		sum.Done, sum.Total = sum.Done+p.Done, sum.Total+p.Total
	}
	return sum, err
}

// SetRemoteProgress stores the progress of the ranks of another node.
func (m *Monitor) SetRemoteProgress(node int, p protocol.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remoteProgress[node] = p
}

// ReportFinalProgress sends the last progress of this node's ranks to the coordinator.
func (m *Monitor) ReportFinalProgress() {
	m.reporting.Lock()
	defer m.reporting.Unlock()
	if p, _ := m.sampleProgress(time.Now()); p.Total > 0 { // the loop has printed the error before
		m.reportProgress(p)
	}
}

// ForwardProgress makes the monitor send the progress of this node's ranks to the coordinator
// instead of showing it. It must be called before Start.
func (m *Monitor) ForwardProgress(send func(protocol.Progress)) { m.reportProgress = send }
