package posting

import (
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/verbs"
)

// Kind is the purpose of a posted request.
type Kind uint8

// The kinds of requests.
const (
	Message    Kind = iota // a data message in Slot
	Control                // a control message in Slot
	Disconnect             // a DREQ in Slot
	Piece                  // a piece of Op
	KeyRead                // reads the keys of Op into Slot of Poster.KeyReads
	Keepalive              // checks whether the peer's device answers
	Marker                 // the last one, posted when the connection is being closed
)

// Request is a posted request that has not completed.
type Request struct {
	Op       *transfer.Op
	Slot     uint32
	Seq      uint32 // of a data message
	Bytes    uint32 // of a message or a piece
	Signaled bool   // has a completion
	Kind     Kind
}

// QueuePair is a queue pair of one connection with its requests in flight, oldest first.
type QueuePair struct {
	// These are constant.
	QP     *verbs.QP
	Rail   *Rail
	Peer   int
	Recvs  *messages.Queue // nil with an SRQ, and on lanes that carry no messages
	Info   cm.QP
	inline int // largest message that is sent inline

	// These belong to the goroutine that calls Poll.
	Epoch     uint32 // of the connection; constant once requests are posted
	Connected bool   // its state may have been RTR, so it may have taken receives from the SRQ
	LastWQE   bool   // the device has raised EventLastWQE: the completions of all receives are in their queue
	Failed    bool   // a request has failed
	Flushed   bool   // during a teardown: the last completion of a send has arrived
	Progress  liveness.Progress

	// Poster.Mu guards these.
	Pacer      transfer.Pacer
	requests   []Request // ring of a power of two; see At
	head       uint32    // number of the oldest request in flight
	tail       uint32    // number of the next request
	unsignaled int       // requests since the last signaled one
	signaled   int       // signaled requests in flight
	pieces     int       // in flight
	unrung     int       // requests since the last doorbell
	lastPoll   uint      // number of the Poll in which the last message was posted
}

// fewRequests is how many requests a queue pair has room for at first. Most queue pairs never have
// more in flight, and there may be thousands of them.
const fewRequests = 8

// NewQueuePair returns a queue pair without requests, for the connection to a peer of this epoch.
// recvs is its receive queue if it has one of its own.
func NewQueuePair(qp *verbs.QP, r *Rail, info cm.QP, peer int, epoch uint32, recvs *messages.Queue) *QueuePair {
	return &QueuePair{QP: qp, Rail: r, Peer: peer, Recvs: recvs, Info: info, inline: qp.Cap().MaxInline, Epoch: epoch,
		requests: make([]Request, fewRequests)}
}

// IsMessages reports whether the queue pair carries messages.
func (q *QueuePair) IsMessages() bool { return q.Info.Lane == cm.Lane{} }

// InFlight returns how many requests are in flight.
func (q *QueuePair) InFlight() int { return int(q.tail - q.head) }

// Supervised reports whether a request with a completion is in flight: the device completes it, or
// reports that the peer's device does not answer.
func (q *QueuePair) Supervised() bool { return q.signaled > 0 }

// Pieces returns how many pieces of transfers are in flight.
func (q *QueuePair) Pieces() int { return q.pieces }

// Oldest returns the number of the oldest request in flight.
func (q *QueuePair) Oldest() uint32 { return q.head }

// Next returns the number of the next request.
func (q *QueuePair) Next() uint32 { return q.tail }

// hasRoom reports whether a request may be posted: in its share of the queue, and in the completion
// queue of the rail.
func (q *QueuePair) hasRoom(part Share) bool {
	return q.InFlight() < q.Rail.Limit[part] && q.Rail.inFlight < q.Rail.MaxInFlight
}

// MayReceive reports whether a queue pair that could not be connected may have taken receives from
// the SRQ all the same. Then the device raises EventLastWQE for it.
func (q *QueuePair) MayReceive() bool {
	s, err := q.QP.State()
	return err != nil || s != verbs.StateReset && s != verbs.StateInit
}

// At returns the memory of request n, which is in flight or the next one.
func (q *QueuePair) At(n uint32) *Request { return &q.requests[n&uint32(len(q.requests)-1)] }

// grow doubles the room for requests.
func (q *QueuePair) grow() {
	old := *q
	q.requests = make([]Request, 2*len(old.requests))
	for n := q.head; n != q.tail; n++ {
		*q.At(n) = *old.At(n)
	}
}

// nextID returns the work request ID of the next request. The epoch distinguishes it from those of
// an earlier queue pair with the same number.
func (q *QueuePair) nextID() uint64 { return uint64(q.Epoch)<<32 | uint64(q.tail) }

// Lookup returns the number of the request that a completion belongs to. ok is false if it is not
// in flight.
func (q *QueuePair) Lookup(id uint64) (n uint32, ok bool) {
	n = uint32(id)
	return n, uint32(id>>32) == q.Epoch && n-q.head < q.tail-q.head
}

// signalFlags returns [verbs.Signaled] if the next request must have a completion: because signal
// demands it, because no request in flight has one, or because too many of the last requests have
// none.
func (q *QueuePair) signalFlags(signal bool) verbs.Flags {
	if signal || q.signaled == 0 || q.unsignaled+1 >= q.Rail.MaxUnsignaled {
		return verbs.Signaled
	}
	return 0
}

// push records a request that was posted.
func (q *QueuePair) push(r Request, f verbs.Flags) {
	r.Signaled = f&verbs.Signaled != 0
	if q.InFlight() == len(q.requests) {
		q.grow()
	}
	*q.At(q.tail) = r
	q.tail++
	q.Rail.inFlight++
	if r.Kind == Piece {
		q.pieces++
		q.Pacer.Posted(int(r.Bytes))
	}
	q.unrung++
	q.unsignaled++
	if r.Signaled {
		q.unsignaled = 0
		q.signaled++
	}
}

// pop removes the oldest request, and returns a pointer to it that is valid until the next push. The
// ring keeps Op until then, so Complete and its caller set it to nil once it was used: Op may refer
// to memory of the program. Detach need not, since the queue pair is dropped with its ring.
func (q *QueuePair) pop() *Request {
	r := q.At(q.head)
	if r.Kind == Piece {
		q.pieces--
	}
	if r.Signaled {
		q.signaled--
	}
	q.head++
	q.Rail.inFlight--
	return r
}

// Suspect returns the request that probably was lost, so that no others are carried out; a request
// of no bytes if none is in flight. It need not be the oldest one: a request without a completion
// of its own stays in flight until the next one with a completion, so it may have arrived long ago.
// Each request up to that next one may be the lost one. The longest of them is taken, since long
// packets are lost most often. If packets of all lengths are lost, packets get smaller without
// need.
func (q *QueuePair) Suspect() (longest Request) {
	for n := q.head; n != q.tail; n++ {
		r := q.At(n)
		if n == q.head || r.Bytes > longest.Bytes {
			longest = *r
		}
		if r.Signaled {
			break
		}
	}
	return longest
}
