package rdma

// pacer decides how much of transfers may be under way on a queue pair. Where packets are lost, much is bad: Soft-RoCE asks
// again for everything that is under way behind a lost packet, and a device that gives up has lost all of the piece that was.
// So it goes by how much was done in half a second: it tries less now and then, and keeps to what was faster. It does no input
// or output.
type pacer struct {
	piece   int  // largest read or write, in bytes
	ahead   int  // bytes that may be under way
	flying  int  // bytes that are
	moved   int  // bytes done since the last beat
	rate    int  // and between the two before, 0: nothing is known
	falling bool // less is being tried
	steady  int  // beats since less was tried
}

const (
	firstAhead = 4  // pieces that may be under way at first
	mostAhead  = 16 // and that they may become
	leastShare = 64 // of a piece that is always allowed, the inverse
	mostSteady = 8  // beats after which less is tried once more
)

func newPacer(piece int) pacer { return pacer{piece: piece, ahead: firstAhead * piece, falling: true} }

// room tells whether one more piece may be posted, and size how long it may be.
func (p *pacer) room() bool { return p.flying < p.ahead }
func (p *pacer) size() int  { return min(p.piece, p.ahead) }

func (p *pacer) posted(n int) { p.flying += n }

func (p *pacer) done(n int) {
	p.flying -= n
	p.moved += n
}

// allow sets how much may be under way.
func (p *pacer) allow(n int) { p.ahead = max(p.piece/leastShare, 1, min(n, mostAhead*p.piece)) }

// beat is called twice a second.
func (p *pacer) beat() {
	moved, rate := p.moved, p.rate
	p.moved, p.rate = 0, moved
	switch {
	case p.flying == 0:
		p.rate = 0 // it was not busy all the time
		return
	case moved == 0:
		p.allow(p.ahead / 4)
		return
	case rate == 0:
		return
	case p.falling && moved*4 < rate*5: // less was not much faster
		p.falling, p.steady = false, 0
	case !p.falling && moved*8 < rate*7, p.steady >= mostSteady:
		p.falling, p.steady = true, 0
	}
	p.steady++
	if p.falling {
		p.allow(p.ahead / 2)
	} else {
		p.allow(p.ahead * 2)
	}
}
