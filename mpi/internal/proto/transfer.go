package proto

import (
	"errors"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/attached"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/rtr"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// transfer is the state of a request that moves a block of memory. A receive reads the block from
// the sender; a send writes it to the receiver, if it assists a read (copy_assist.go) or answers an
// RTR (rtr.go).
type transfer struct {
	req     *Request
	next    *transfer // in transferQueue
	queued  bool
	peer    int32
	peerID  uint64 // id of the peer's request
	key     fabric.RemoteKey
	bytes   int          // to be moved: the message, or as much as the receiver wants
	total   int          // length of the message
	elapsed cost.Elapsed // what this side measures
	local   regcache.Memory

	// claims is the shared word: the pieces claimed from the front, and in the upper half those
	// from the back. nil: the sender does not assist.
	claims *uint64
	// assisted is the number of pieces that the sender has written; -1 at the receiver while it is
	// not known.
	assisted int
	// offset is the number of bytes moved with RendezvousCopy. With RendezvousShared it is equal to
	// bytes when this side has read its share.
	offset int

	state         transferState
	running       bool      // send: a goroutine writes, without holding the lock
	deferred      wire.Kind // the message that arrived meanwhile: wire.FIN, wire.DataRequest, or 0
	deferredWords [5]uint64 // its words
}

// transferState is what a request expects of the peer or of the transport.
type transferState uint8

const (
	transferNone     transferState = iota // no transfer is in progress
	transferReading                       // receive: the end of the read, and ATP if assisted
	transferCopying                       // receive: Data
	transferAwaitPut                      // receive: ATP or Data
	transferPutting                       // send: the end of the write into the buffer of an RTR
	transferSchedule                      // the next steps of a schedule can be done
)

// transfers are what both sides of messages use whose payload is not sent together with their
// envelope: sends and receives.
type transfers struct {
	transferQueue
	rtr rtr.Flows

	mu       *lock.Mutex // of the engine; released while a block is moved
	links    *links
	requests *Requests
	hints    *hintSet
	rec      *record.Recording
}

// sends starts sends that do not take a fast path. It handles what the receivers answer, and writes
// blocks to their memory.
type sends struct {
	*transfers
	notes  *notes.Table
	buffer *attached.Buffer // for buffered sends
}

// receives matches messages with receives, and gets the payload that did not come with the
// envelope.
type receives struct {
	*transfers
	contexts   *Contexts
	unexpected *unexpectedStore
	notes      *notes.Table
	general    *int // waiters.general
}

// transferQueue holds the transfers that wait for a goroutine to move their blocks, and those of
// schedules, first in, first out.
type transferQueue struct{ head, tail *transfer }

func (q *transferQueue) push(t *transfer) {
	t.queued, t.next = true, nil
	if q.head == nil {
		q.head = t
	} else {
		q.tail.next = t
	}
	q.tail = t
}

// remove removes a transfer from any position.
func (q *transferQueue) remove(t *transfer) {
	var before *transfer
	for x := q.head; x != t; x = x.next {
		before = x
	}
	if before == nil {
		q.head = t.next
	} else {
		before.next = t.next
	}
	if q.tail == t {
		q.tail = before
	}
	t.queued = false
}

func (q *transferQueue) pop() *transfer {
	t := q.head
	if t != nil {
		q.head, t.queued = t.next, false
	}
	return t
}

// runRead reads a message, or a part of it if the sender assists. It does not hold the lock
// meanwhile.
func (x *receives) runRead(t *transfer) {
	ep, buf, token, moves := x.endpoint(t), t.req.buf[:t.bytes], t.req.id(), x.links.peer(t.peer).moves
	var finished = true
	var err error
	elapsed, moved := t.elapsed, t.bytes
	x.rec.Configured.Begun()
	x.mu.Unlock()
	began := elapsed.Begin(x.links.now)
	if t.claims == nil {
		finished, err = ep.Read(buf, t.local.Local, t.key, token)
	} else {
		moved, err = readFront(ep, t, buf)
	}
	elapsed.End(x.links.now, began, moved)
	x.mu.Lock()
	// If not, the completion may have been handled before, and the request be in use again.
	if finished {
		t.elapsed = elapsed
	}
	if errors.Is(err, fabric.ErrNotSupported) && moves != x.links.peer(t.peer).moves {
		x.fallBackToCopy(t) // another domain has taken over meanwhile
	} else {
		x.readReturned(t, finished, err)
	}
	x.returned(finished, err)
}

// endpoint returns the endpoint for a transfer: that of the context's rail, if there is one.
func (x *transfers) endpoint(t *transfer) fabric.Endpoint {
	p := x.links.peer(t.peer)
	if !x.hints.rails || p.path.multiRail == nil {
		return p.ep
	}
	h := x.hints.byContext[t.req.route.Context]
	if h == nil || h.Rail < 0 {
		return p.ep
	}
	return p.path.multiRail.WithRail(p.ep, h.Rail)
}

// returned counts the end of a read or write whose call has returned, unless a completion is to
// follow.
func (x *transfers) returned(finished bool, err error) {
	if finished || err != nil {
		x.rec.Configured.Ended()
	}
}

// readReturned must be called when the call that starts a read has returned. finished reports
// whether the read is complete.
func (x *receives) readReturned(t *transfer, finished bool, err error) {
	switch {
	case errors.Is(err, fabric.ErrNotSupported):
		x.links.peer(t.peer).noRemoteAccess = true
		x.fallBackToCopy(t)
	case err != nil:
		x.finishRead(t.req, err)
	case finished:
		x.finishReadShare(t)
	}
}

// handleCompletion handles the end of a read that did not finish immediately.
func (x *receives) handleCompletion(r *Request, err error) {
	switch {
	case r.transfer.state != transferReading:
	case errors.Is(err, fabric.ErrNotSupported): // another domain takes over
		x.fallBackToCopy(&r.transfer)
	case err != nil:
		x.finishRead(r, err)
	default:
		x.finishReadShare(&r.transfer)
	}
}

// report reports to the sender what the receiver of a message has measured, if it has all of it.
func (x *receives) report(t *transfer) {
	if t.bytes != t.total {
		return
	}
	protocol := protocols.RendezvousRead
	if t.claims != nil {
		protocol = protocols.RendezvousShared
	}
	x.links.reportElapsed(&t.elapsed, t.peer, t.total, protocol, t.peerID)
}

// finishRead ends a receive that reads. It sends FIN, so that the sender completes.
func (x *receives) finishRead(r *Request, err error) {
	if err != nil {
		err = x.links.transportError(r.transfer.peer, err)
	} else {
		x.report(&r.transfer)
	}
	x.links.sendControl(r.transfer.peer, wire.Envelope{Kind: wire.FIN}, r.transfer.peerID)
	x.finishTransfer(r, err)
}

// recordedProtocol returns the protocol under which a receive is recorded.
func (t *transfer) recordedProtocol() perf.Protocol {
	switch {
	case t.state == transferCopying:
		return perf.Copied
	case t.claims != nil:
		return perf.Shared
	}
	return perf.Read
}

// finishTransfer completes a receive whose transfer has ended.
func (x *receives) finishTransfer(r *Request, err error) {
	t := &r.transfer
	if err == nil {
		x.links.linkTo(t.peer).InBy(t.recordedProtocol(), t.bytes)
	}
	t.state = transferNone
	if err == nil {
		err = r.revokeErr
	}
	releaseMemory(&t.local)
	if err == nil && t.total != r.size() {
		err = x.lengthError(r, t.total)
	}
	x.requests.complete(r, err)
}

// releaseMemory releases registered memory and clears m.
func releaseMemory(m *regcache.Memory) {
	if *m != (regcache.Memory{}) {
		// The bytes have been moved, whatever the error. If the domain is broken, its Poll fails;
		// Engine.Close returns the first other error.
		_ = m.Release()
		*m = regcache.Memory{}
	}
}
