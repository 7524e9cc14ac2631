package rdma

import "testing"

// run has a way carry as much per beat as rate says for what is under way.
func (p *pacer) run(beats int, rate func(ahead int) int) (sum int) {
	for range beats {
		p.posted(p.window - p.inFlight)
		n := rate(p.window)
		p.inFlight += n
		p.done(n)
		p.adjust()
		sum += n
	}
	return sum
}

// TestPacer: over a way that loses nothing much stays under way, over one where more is slower little, and over one where
// nothing comes through the least there is.
func TestPacer(t *testing.T) {
	const piece, beats = 64 << 10, 200
	flat := newPacer(piece)
	flat.run(beats, func(ahead int) int { return min(ahead, 2*piece) })
	if flat.window < 2*piece || flat.size() != piece {
		t.Errorf("without loss %d bytes may be under way, and pieces have %d", flat.window, flat.size())
	}
	lossy := newPacer(piece)
	const best = piece / 4
	most := best * beats
	if n := lossy.run(beats, func(ahead int) int { return min(ahead, best*best/ahead) }); n < most/3 {
		t.Errorf("%d bytes went over a way that could have carried %d", n, most)
	}
	dead := newPacer(piece)
	dead.run(beats, func(int) int { return 0 })
	if dead.window != piece/minPieceShare || dead.size() != dead.window {
		t.Errorf("where nothing moves %d bytes may be under way, and pieces have %d", dead.window, dead.size())
	}
	idle := newPacer(piece)
	for range beats {
		idle.adjust()
	}
	if idle.window != initialPieces*piece {
		t.Errorf("when nothing was asked for, %d bytes may be under way", idle.window)
	}
}
