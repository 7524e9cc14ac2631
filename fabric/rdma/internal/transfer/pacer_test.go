package transfer

import "testing"

// simulate completes rate(window) bytes in each interval, as many as the network carries with that
// many in flight.
func (p *Pacer) simulate(intervals int, rate func(window int) int) (sum int) {
	for range intervals {
		p.Posted(p.Window - p.inFlight)
		n := rate(p.Window)
		p.inFlight += n
		p.Done(n)
		p.Adjust()
		sum += n
	}
	return sum
}

// TestPacer: the window becomes large without loss, small where a larger window is slower, and as
// small as possible where nothing arrives.
func TestPacer(t *testing.T) {
	const piece, intervals = 64 << 10, 200
	flat := NewPacer(piece)
	flat.simulate(intervals, func(window int) int { return min(window, 2*piece) })
	if flat.Window < 2*piece || flat.Size() != piece {
		t.Errorf("without loss the window is %d bytes, and pieces have %d", flat.Window, flat.Size())
	}
	lossy := NewPacer(piece)
	const best = piece / 4
	most := best * intervals
	if n := lossy.simulate(intervals, func(window int) int { return min(window, best*best/window) }); n < most/3 {
		t.Errorf("%d bytes were transferred, but %d were possible", n, most)
	}
	dead := NewPacer(piece)
	dead.simulate(intervals, func(int) int { return 0 })
	if dead.Window != piece/minPieceShare || dead.Size() != dead.Window {
		t.Errorf("where nothing arrives the window is %d bytes, and pieces have %d", dead.Window, dead.Size())
	}
	idle := NewPacer(piece)
	for range intervals {
		idle.Adjust()
	}
	if idle.Window != initialPieces*piece {
		t.Errorf("without transfers the window is %d bytes", idle.Window)
	}
}
