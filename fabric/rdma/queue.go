package rdma

import "github.com/ibrun/ibrun/verbs"

const (
	depth     = 64 // requests of one queue pair that may be under way
	ofData    = 40 // of these, messages
	ofPieces  = 56 // of these, messages and pieces of transfers; the rest is for what keeps the connection going
	coalesced = 8  // messages that may wait for one doorbell
	unsigned  = 8  // messages that may go before the device is asked to report one
)

// work is what a request under way is for.
type work uint8

const (
	workMessage work = iota // slot is that of the message
	workNotice              // likewise, of one that is no data
	workBye                 // likewise, of the last
	workPiece               // of op
	workKeys                // of op: slot is where its keys go
	workBeat                // to learn whether the peer is there
)

// record is a request that is under way.
type record struct {
	op    *op    // of a piece
	slot  uint32 // of a message
	seq   uint32 // of a message of data
	bytes uint32 // of a message or a piece
	loud  bool   // it reports
	work  work
}

// queue is a queue pair of one connection and what is under way on it, oldest first. It is guarded by domain.mu.
type queue struct {
	rail   *rail
	qp     *verbs.QP
	pair   pair
	epoch  uint32
	inline int // bytes that can be sent without a slot
	fifo   [depth]record
	head   uint32 // number of the oldest request under way
	tail   uint32 // number of the next request
	silent int    // requests since the last that reports
	watch  int    // requests under way that report
	failed bool

	pacer  pacer
	pieces int    // under way
	seen   uint32 // head when the heart beat last
	unrung int    // requests that the device was not told of
	turn   uint   // domain.turn when the last message was posted
}

func (q *queue) under() int { return int(q.tail - q.head) }

// id is what request n is posted with. The epoch tells it from those of an earlier pair with the same number.
func (q *queue) id(n uint32) uint64 { return uint64(q.epoch)<<32 | uint64(n) }

// covers tells whether a completion is of something that is under way, and which.
func (q *queue) covers(id uint64) (n uint32, ok bool) {
	n = uint32(id)
	return n, uint32(id>>32) == q.epoch && n-q.head < q.tail-q.head
}

// flags tell whether the next request is to report, given that it must or need not.
func (q *queue) flags(must bool) verbs.Flags {
	if must || q.watch == 0 || q.silent+1 >= unsigned {
		return verbs.Signaled
	}
	return 0
}

// push notes a request that was posted.
func (q *queue) push(r record, f verbs.Flags) {
	r.loud = f&verbs.Signaled != 0
	q.fifo[q.tail%depth] = r
	q.tail++
	if r.work == workPiece {
		q.pieces++
		q.pacer.posted(int(r.bytes))
	}
	q.unrung++
	q.silent++
	if r.loud {
		q.silent = 0
		q.watch++
	}
}

// pop takes the oldest request.
func (q *queue) pop() record {
	r := &q.fifo[q.head%depth]
	old := *r
	if old.work == workPiece {
		q.pieces--
	}
	r.op = nil
	if old.loud {
		q.watch--
	}
	q.head++
	return old
}
