package rdma

// pacer limits how many bytes of transfers are in flight on a queue pair. Where packets are lost, a large window is bad:
// Soft-RoCE requests everything again that is in flight behind a lost packet, and a device that gives up has lost the whole
// piece in flight. So the pacer compares how many bytes complete per keepalive interval: now and then it tries a smaller
// window, and keeps the window that was faster. It does no input or output.
type pacer struct {
	piece         int  // largest read or write, in bytes
	window        int  // bytes that may be in flight
	inFlight      int  // bytes that are
	completed     int  // bytes completed in this interval
	lastCompleted int  // bytes completed in the interval before, 0: unknown
	shrinking     bool // smaller windows are being tried
	sinceShrink   int  // intervals since shrinking was changed
}

const (
	initialPieces = 4  // initial window, in pieces
	maxPieces     = 16 // largest window, in pieces
	minPieceShare = 64 // the smallest window is a piece divided by this
	shrinkEvery   = 8  // intervals after which smaller windows are tried again
)

func newPacer(piece int) pacer {
	return pacer{piece: piece, window: initialPieces * piece, shrinking: true}
}

// room reports whether another piece may be posted.
func (p *pacer) room() bool { return p.inFlight < p.window }

// size returns the largest size of the next piece.
func (p *pacer) size() int { return min(p.piece, p.window) }

// posted records that a piece was posted.
func (p *pacer) posted(n int) { p.inFlight += n }

// done records that a piece has completed.
func (p *pacer) done(n int) {
	p.inFlight -= n
	p.completed += n
}

// setWindow sets the window, within its limits.
func (p *pacer) setWindow(n int) { p.window = max(p.piece/minPieceShare, 1, min(n, maxPieces*p.piece)) }

// adjust adjusts the window. It must be called once in every keepalive interval.
func (p *pacer) adjust() {
	completed, last := p.completed, p.lastCompleted
	p.completed, p.lastCompleted = 0, completed
	switch {
	case p.inFlight == 0:
		p.lastCompleted = 0 // there was nothing to do for a part of the interval
		return
	case completed == 0:
		p.setWindow(p.window / 4)
		return
	case last == 0:
		return
	case p.shrinking && completed*4 < last*5: // the smaller window was not much faster
		p.shrinking, p.sinceShrink = false, 0
	case !p.shrinking && completed*8 < last*7, p.sinceShrink >= shrinkEvery:
		p.shrinking, p.sinceShrink = true, 0
	}
	p.sinceShrink++
	if p.shrinking {
		p.setWindow(p.window / 2)
	} else {
		p.setWindow(p.window * 2)
	}
}
