package monitor

import (
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"golang.org/x/term"
)

// sampleLoop notes since when ranks do what they do, and shows how far they are, or tells node 0.
func (m *Monitor) sampleLoop() {
	every := sampleInterval
	terminal := term.IsTerminal(int(m.streams.Err.Fd()))
	if terminal {
		every = barEvery
	}
	show := progressFilter{asLines: !terminal && m.reportProgress == nil}
	tick := time.NewTicker(every)
	defer tick.Stop()
	blind := false // it has been said that ranks cannot be looked at
	for {
		select {
		case <-m.ctx.Done():
			sum, _ := m.sampleProgress(time.Now()) // what cannot be read has been said
			if p := show.last(sum); p != nil && m.reportProgress == nil {
				m.streams.Say("progress: %v", p)
			}
			return
		case now := <-tick.C:
			sum, err := m.sampleProgress(now)
			if err != nil && !blind {
				blind = true
				m.streams.Say("nobody can look on at what some ranks do: %v", err)
			}
			switch p := show.next(sum, now); {
			case p == nil:
			case m.reportProgress != nil:
				m.reportProgress(sum)
			case terminal:
				m.order(&protocol.Order{Bar: p})
			default:
				m.streams.Say("progress: %v", p)
			}
		}
	}
}

// sampleProgress looks at the ranks here, and adds up how far they and those of other nodes are. The error says why some cannot
// be looked at.
func (m *Monitor) sampleProgress(now time.Time) (sum protocol.Progress, err error) {
	pulses, err := m.mem.Pulses()
	for i, p := range pulses {
		m.watch.See(m.task.Ranks[i].Rank, p, now)
		sum.Done, sum.Total = sum.Done+p.Done, sum.Total+p.Total
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.remoteProgress {
		sum.Done, sum.Total = sum.Done+p.Done, sum.Total+p.Total
	}
	return sum, err
}

// SetRemoteProgress takes in how far the ranks of another node are.
func (m *Monitor) SetRemoteProgress(node int, p protocol.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remoteProgress[node] = p
}

// ReportFinalProgress tells node 0 how far the ranks here came.
func (m *Monitor) ReportFinalProgress() {
	if p, _ := m.sampleProgress(time.Now()); p.Total > 0 { // what cannot be read has been said
		m.reportProgress(p)
	}
}

// ForwardProgress sends the progress of this node's ranks to node 0 instead of showing it. It must be called before start.
func (m *Monitor) ForwardProgress(send func(protocol.Progress)) { m.reportProgress = send }
