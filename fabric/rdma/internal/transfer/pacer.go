package transfer

// Pacer limits how many bytes of transfers are in flight on a queue pair. Where packets are lost, a
// large window is bad: Soft-RoCE requests everything again that is in flight behind a lost packet,
// and a device that gives up has lost the whole piece in flight. So the pacer compares how many
// bytes complete per keepalive interval: now and then it tries a smaller window, and keeps the
// window that was faster. It does no input or output.
type Pacer struct {
	piece         int  // largest read or write, in bytes
	Window        int  // bytes that may be in flight
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

// NewPacer returns the pacer of a queue pair whose pieces have at most so many bytes.
func NewPacer(piece int) Pacer {
	return Pacer{piece: piece, Window: initialPieces * piece, shrinking: true}
}

// Room reports whether another piece may be posted.
func (p *Pacer) Room() bool { return p.inFlight < p.Window }

// Size returns the largest size of the next piece.
func (p *Pacer) Size() int { return min(p.piece, p.Window) }

// Posted records that a piece was posted.
func (p *Pacer) Posted(n int) { p.inFlight += n }

// Done records that a piece has completed.
func (p *Pacer) Done(n int) {
	p.inFlight -= n
	p.completed += n
}

// SetWindow sets the window, within its limits.
func (p *Pacer) SetWindow(n int) { p.Window = max(p.piece/minPieceShare, 1, min(n, maxPieces*p.piece)) }

// Adjust adjusts the window. It must be called once in every keepalive interval.
func (p *Pacer) Adjust() {
	completed, last := p.completed, p.lastCompleted
	p.completed, p.lastCompleted = 0, completed
	switch {
	case p.inFlight == 0:
		p.lastCompleted = 0 // there was nothing to do for a part of the interval
		return
	case completed == 0:
		p.SetWindow(p.Window / 4)
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
		p.SetWindow(p.Window / 2)
	} else {
		p.SetWindow(p.Window * 2)
	}
}
