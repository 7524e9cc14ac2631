package rdma

import (
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/verbs"
)

const (
	maxUnrung     = 8 // messages that may wait for one doorbell
	maxUnsignaled = 8 // of so many requests in a row, at least one has a completion; see also rail.maxUnsignaled
)

// requestKind is the purpose of a posted request.
type requestKind uint8

const (
	requestMessage    requestKind = iota // a data message in slot
	requestControl                       // a control message in slot
	requestDisconnect                    // a DREQ in slot
	requestPiece                         // a piece of op
	requestKeyRead                       // reads the keys of op into slot of domain.keyReads
	requestKeepalive                     // checks whether the peer's device answers
	requestMarker                        // the last one, posted when the connection is being closed
)

// request is a posted request that has not completed.
type request struct {
	op       *transfer.Op
	slot     uint32
	seq      uint32 // of a data message
	bytes    uint32 // of a message or a piece
	signaled bool   // has a completion
	kind     requestKind
}

// queuePair is a queue pair of one connection with its requests in flight, oldest first. It is guarded by domain.mu.
type queuePair struct {
	ep         *endpoint
	rail       *rail
	qp         *verbs.QP
	recvs      *messages.Queue // nil with an SRQ, and on lanes that carry no messages
	info       cm.QP
	epoch      uint32
	inline     int       // largest message that is sent inline
	requests   []request // ring of a power of two, at most devices.QPDepth; see at
	head       uint32    // number of the oldest request in flight
	tail       uint32    // number of the next request
	unsignaled int       // requests since the last signaled one
	signaled   int       // signaled requests in flight
	failed     bool
	connected  bool // its state may have been RTR, so it may have taken receives from the SRQ
	flushed    bool // during a teardown: the last completion of a send has arrived
	lastWQE    bool // the device has raised EventLastWQE: the completions of all receives are in their queue
	progress   liveness.Progress

	pacer    transfer.Pacer
	pieces   int  // in flight
	unrung   int  // requests since the last doorbell
	lastPoll uint // clock.Polls when the last message was posted
}

// fewRequests is how many requests a queue pair has room for at first. Most queue pairs never have more in flight, and there may
// be thousands of them.
const fewRequests = 8

func (q *queuePair) inFlight() int { return int(q.tail - q.head) }

// hasRoom reports whether a request may be posted: in its share of the queue, and in the completion queue of the rail.
func (d *domain) hasRoom(q *queuePair, part share) bool {
	return q.inFlight() < q.rail.limit[part] && d.inFlight[q.rail.Index] < q.rail.MaxInFlight
}

// mayReceive reports whether a queue pair that could not be connected may have taken receives from the SRQ all the same. Then the
// device raises EventLastWQE for it.
func (q *queuePair) mayReceive() bool {
	s, err := q.qp.State()
	return err != nil || s != verbs.StateReset && s != verbs.StateInit
}

// at returns the memory of request n, which is in flight or the next one.
func (q *queuePair) at(n uint32) *request { return &q.requests[n&uint32(len(q.requests)-1)] }

// grow doubles the room for requests.
func (q *queuePair) grow() {
	old := *q
	q.requests = make([]request, 2*len(old.requests))
	for n := q.head; n != q.tail; n++ {
		*q.at(n) = *old.at(n)
	}
}

// wrID returns the work request ID of request n. The epoch distinguishes it from those of an earlier queue pair with the same
// number.
func (q *queuePair) wrID(n uint32) uint64 { return uint64(q.epoch)<<32 | uint64(n) }

// lookup returns the number of the request that a completion belongs to. ok is false if it is not in flight.
func (q *queuePair) lookup(id uint64) (n uint32, ok bool) {
	n = uint32(id)
	return n, uint32(id>>32) == q.epoch && n-q.head < q.tail-q.head
}

// signalFlags returns [verbs.Signaled] if the next request must have a completion: because signal demands it, because no
// request in flight has one, or because too many of the last requests have none.
func (q *queuePair) signalFlags(signal bool) verbs.Flags {
	if signal || q.signaled == 0 || q.unsignaled+1 >= q.rail.maxUnsignaled {
		return verbs.Signaled
	}
	return 0
}

// push records a request that was posted.
func (q *queuePair) push(r request, f verbs.Flags) {
	r.signaled = f&verbs.Signaled != 0
	if q.inFlight() == len(q.requests) {
		q.grow()
	}
	*q.at(q.tail) = r
	q.tail++
	if r.kind == requestPiece {
		q.pieces++
		q.pacer.Posted(int(r.bytes))
	}
	q.unrung++
	q.unsignaled++
	if r.signaled {
		q.unsignaled = 0
		q.signaled++
	}
}

// suspect returns the request that probably was lost, so that no others are carried out; a request of no bytes if none is in
// flight. It need not be the oldest one: a request without a completion of its own stays in flight until the next one with a
// completion, so it may have arrived long ago. Each request up to that next one may be the lost one. The longest of them is
// taken, since long packets are lost most often. If packets of all lengths are lost, packets get smaller without need.
func (q *queuePair) suspect() (longest request) {
	for n := q.head; n != q.tail; n++ {
		r := q.at(n)
		if n == q.head || r.bytes > longest.bytes {
			longest = *r
		}
		if r.signaled {
			break
		}
	}
	return longest
}

// pop removes and returns the oldest request.
func (q *queuePair) pop() request {
	r := q.at(q.head)
	old := *r
	if old.kind == requestPiece {
		q.pieces--
	}
	r.op = nil
	if old.signaled {
		q.signaled--
	}
	q.head++
	return old
}

// qpKey identifies a queue pair.
type qpKey struct {
	rail *rail
	qpn  uint32
}

// qpIndex finds the queue pairs of connections. Consecutive completions are mostly of few queue pairs, which a small
// direct-mapped cache holds.
type qpIndex struct {
	all   map[qpKey]*queuePair
	cache [16]struct {
		key qpKey
		q   *queuePair
	}
}

func (x *qpIndex) find(r *rail, qpn uint32) *queuePair {
	c := &x.cache[qpn%uint32(len(x.cache))]
	if key := (qpKey{r, qpn}); c.key != key || c.q == nil {
		c.key, c.q = key, x.all[key]
	}
	return c.q
}

func (x *qpIndex) set(q *queuePair) {
	x.all[qpKey{q.rail, q.info.QPN}] = q
	x.cache[q.info.QPN%uint32(len(x.cache))].q = nil
}

func (x *qpIndex) remove(r *rail, qpn uint32) {
	delete(x.all, qpKey{r, qpn})
	x.cache[qpn%uint32(len(x.cache))].q = nil
}
