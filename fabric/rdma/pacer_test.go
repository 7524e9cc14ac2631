package rdma

import "testing"

// simulate completes rate(window) bytes in each interval, as many as the network carries with that many in flight.
func (p *pacer) simulate(intervals int, rate func(window int) int) (sum int) {
	for range intervals {
		p.posted(p.window - p.inFlight)
		n := rate(p.window)
		p.inFlight += n
		p.done(n)
		p.adjust()
		sum += n
	}
	return sum
}

// TestPacer: the window becomes large without loss, small where a larger window is slower, and as small as possible where
// nothing arrives.
func TestPacer(t *testing.T) {
	const piece, intervals = 64 << 10, 200
	flat := newPacer(piece)
	flat.simulate(intervals, func(window int) int { return min(window, 2*piece) })
	if flat.window < 2*piece || flat.size() != piece {
		t.Errorf("without loss the window is %d bytes, and pieces have %d", flat.window, flat.size())
	}
	lossy := newPacer(piece)
	const best = piece / 4
	most := best * intervals
	if n := lossy.simulate(intervals, func(window int) int { return min(window, best*best/window) }); n < most/3 {
		t.Errorf("%d bytes were transferred, but %d were possible", n, most)
	}
	dead := newPacer(piece)
	dead.simulate(intervals, func(int) int { return 0 })
	if dead.window != piece/minPieceShare || dead.size() != dead.window {
		t.Errorf("where nothing arrives the window is %d bytes, and pieces have %d", dead.window, dead.size())
	}
	idle := newPacer(piece)
	for range intervals {
		idle.adjust()
	}
	if idle.window != initialPieces*piece {
		t.Errorf("without transfers the window is %d bytes", idle.window)
	}
}
