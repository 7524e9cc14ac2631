package proto

import (
	"errors"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/perf"
)

const (
	// shareFrom is the length from which sender and receiver share the work of a transfer, where that is possible.
	shareFrom = 4 << 10
	// wordStride is the distance between words in use, so that two transfers do not share a cache line.
	wordStride = 8
)

// pieceBytes is the unit in which the two sides claim parts of a message: all of a short one, so that of several
// messages each side moves some; one half each where the system call takes about as long as the copy, and smaller
// parts, so that they finish at nearly the same time, where it does not count.
func pieceBytes(n int) int {
	switch {
	case n < 16<<10:
		return n
	case n <= 128<<10:
		return (n/2 + 4095) &^ 4095
	case n <= 1<<20:
		return 64 << 10
	}
	return 256 << 10
}

// transfer is the part of a request that moves a block: for a receive, reading it from the sender; for a send that
// was asked for help, writing it to the receiver.
type transfer struct {
	req    *Request
	next   *transfer // in the queue of those that want to move
	queued bool
	peer   int32
	id     uint64 // the peer's request
	key    fabric.RemoteKey
	bytes  int // to be moved: the message, or as much as the receiver wants
	whole  int // length of the message
	local  regcache.Memory

	claims  *uint64 // pieces claimed from the front, and in the upper half from the back; nil: nobody helps
	helping int     // send: pieces written. receive: pieces that the sender wrote, -1: not known
	offset  int     // copies: how far. Shared: bytes, once this side has read its share

	form    form      // receive: how the message comes
	running bool      // send: some goroutine writes, without the lock
	after   kind      // what came meanwhile: FIN, SEND, or zero
	wanted  [5]uint64 // its words
}

// form says what a receive expects of the sender.
type form uint8

const (
	nothing form = iota // no transfer is under way
	reading             // nothing, or WROTE if the sender helps
	copying             // DATA
	taking              // WROTE or DATA
	putting             // send: it is written to where the receiver wants it
)

// moveQueue holds the transfers that want to move a block, first come first.
type moveQueue struct{ head, tail *transfer }

func (q *moveQueue) push(t *transfer) {
	t.queued, t.next = true, nil
	if q.head == nil {
		q.head = t
	} else {
		q.tail.next = t
	}
	q.tail = t
}

// remove takes a transfer out wherever it is.
func (q *moveQueue) remove(t *transfer) {
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

func (q *moveQueue) pop() *transfer {
	t := q.head
	if t != nil {
		q.head, t.queued = t.next, false
	}
	return t
}

// pull begins to fetch an offered message for a matched receive.
func (e *Engine) pull(r *Request, peer int32, v envelope, w [5]uint64) {
	if r.ends&announced != 0 {
		e.unannounce(r)
	}
	t := &r.move
	t.peer, t.id, t.key = peer, w[3], fabric.RemoteKey{Addr: w[1], Key: w[2]}
	t.whole = int(w[0])
	t.bytes = min(t.whole, len(r.buf))
	t.claims, t.helping, t.offset, t.local = nil, -1, 0, regcache.Memory{}
	t.form = reading
	r.route.Peer = peer
	r.status = Status{Source: v.Rank, Tag: v.Tag, Bytes: t.bytes}
	if t.bytes == 0 {
		e.pulled(r, nil)
		return
	}
	if err := e.connect(peer); err != nil {
		e.received(r, err)
		return
	}
	p := e.peer(peer)
	if !p.way.caps.Read || p.copies || t.key == unreadable.Remote {
		e.askForCopies(t)
		return
	}
	var err error
	t.local, err = p.way.hold(r.buf[:t.bytes])
	switch {
	case e.copiable(err):
		e.askForCopies(t)
		return
	case err != nil:
		e.pulled(r, err)
		return
	}
	if w[4] != noWord {
		e.askForHelp(t, w[4])
	}
	if p.pusher == nil || t.claims != nil {
		e.moves.push(t)
		return
	}
	// At once, and with the lock held, since it does not occupy us: it may have been sent along, and the next Poll would drop it.
	finished, err := e.over(t).Read(r.buf[:t.bytes], t.local.Local, t.key, r.id())
	e.fetched(t, finished, err)
}

// askForHelp lets the sender write from the back while we read from the front.
func (e *Engine) askForHelp(t *transfer, word uint64) {
	p := e.peer(t.peer)
	if p.inbound == nil && e.pairer != nil {
		p.inbound = e.pairer.Words(int(t.peer), true)
	}
	if i := word * wordStride; word < noWord/wordStride && i < uint64(len(p.inbound)) && t.bytes >= shareFrom {
		t.claims = &p.inbound[i]
		to := t.local.Remote
		e.note(t.peer, envelope{kind: kindHelp}, t.id, t.req.id(), to.Addr, to.Key, uint64(t.bytes))
	}
}

// helped handles HELP: the receiver invites us to write from the back.
func (e *Engine) helped(peer int32, w [5]uint64) bool {
	r := e.byID(w[0])
	if r == nil || !r.awaits(peer) || kind(r.out.header[0]) != kindOffer || r.word < 0 || w[4] == 0 || w[4] > uint64(len(r.buf)) {
		return false
	}
	t := &r.move
	if t.queued || t.running {
		return false
	}
	t.peer, t.id, t.key = peer, w[1], fabric.RemoteKey{Addr: w[2], Key: w[3]}
	t.bytes, t.helping, t.local = int(w[4]), 0, r.memory
	t.claims = &e.peer(peer).outbound[r.word*wordStride]
	e.moves.push(t)
	return true
}

// claimFront and claimBack take the next piece from their end, and report its number, or -1 if all are taken.
func claimFront(w *uint64, pieces int) int {
	for {
		v := atomic.LoadUint64(w)
		front, back := int(uint32(v)), int(v>>32)
		if front+back >= pieces {
			return -1
		}
		if atomic.CompareAndSwapUint64(w, v, v+1) {
			return front
		}
	}
}

func claimBack(w *uint64, pieces int) int {
	for {
		v := atomic.LoadUint64(w)
		front, back := int(uint32(v)), int(v>>32)
		if front+back >= pieces {
			return -1
		}
		if atomic.CompareAndSwapUint64(w, v, v+1<<32) {
			return pieces - 1 - back
		}
	}
}

// piece returns the bounds of a piece of n bytes.
func piece(i, n int) (from, to int) {
	size := pieceBytes(n)
	return i * size, min((i+1)*size, n)
}

func pieces(n int) int { return (n + pieceBytes(n) - 1) / pieceBytes(n) }

// work moves one block. The lock is not held meanwhile; the transfer belongs to this goroutine.
func (e *Engine) work() {
	t := e.moves.pop()
	switch {
	case t.req.send && t.claims == nil:
		e.write(t)
		return
	case t.req.send:
		e.push(t)
		return
	}
	ep, buf, token := e.over(t), t.req.buf[:t.bytes], t.req.id()
	var finished = true
	var err error
	e.unlock()
	if t.claims == nil {
		finished, err = ep.Read(buf, t.local.Local, t.key, token)
	} else {
		err = readFront(ep, t, buf)
	}
	e.lock()
	e.fetched(t, finished, err)
}

// fetched is called when a read has begun, or is over.
func (e *Engine) fetched(t *transfer, finished bool, err error) {
	switch {
	case errors.Is(err, fabric.ErrNotSupported):
		e.peer(t.peer).copies = true
		e.withdrawHelp(t)
	case err != nil:
		e.pulled(t.req, err)
	case finished:
		e.readDone(t)
	}
}

// readFront reads pieces from the front until all are claimed.
func readFront(ep fabric.Endpoint, t *transfer, buf []byte) error {
	n := pieces(t.bytes)
	for i := claimFront(t.claims, n); i >= 0; i = claimFront(t.claims, n) {
		if err := readPiece(ep, t, buf, i); err != nil {
			return err
		}
	}
	return nil
}

func readPiece(ep fabric.Endpoint, t *transfer, buf []byte, i int) error {
	from, to := piece(i, t.bytes)
	key := t.key
	key.Addr += uint64(from)
	_, err := ep.Read(buf[from:to], t.local.Local, key, 0)
	return err
}

// readDone is called when this side's share has been read. If the sender took pieces, its word that it wrote them is
// still to come, or is there.
func (e *Engine) readDone(t *transfer) {
	if t.claims == nil || atomic.LoadUint64(t.claims)>>32 == 0 {
		e.pulled(t.req, nil)
		return
	}
	t.offset = t.bytes // reading is over
	if t.helping >= 0 {
		e.joined(t)
	}
}

// wrote handles WROTE: the sender has written the pieces it claimed, as many as it says.
func (e *Engine) wrote(peer int32, w [5]uint64) bool {
	r := e.byID(w[0])
	if r == nil || r.send || r.move.peer != peer {
		return false
	}
	if r.move.form == taking {
		e.received(r, nil)
		return true
	}
	if r.move.form != reading {
		return false
	}
	if r.move.claims == nil || r.move.helping >= 0 || w[1] > uint64(pieces(r.move.bytes)) {
		return false
	}
	r.move.helping = int(w[1])
	if r.move.offset == r.move.bytes {
		e.joined(&r.move)
	}
	return true
}

// joined ends a shared transfer. Pieces that the sender claimed and could not write are read after all.
func (e *Engine) joined(t *transfer) {
	p := e.peer(t.peer)
	n := pieces(t.bytes)
	claimed := min(int(atomic.LoadUint64(t.claims)>>32), n)
	var err error
	for i := n - claimed; i < n-t.helping && err == nil && !p.copies; i++ {
		err = readPiece(p.ep, t, t.req.buf, i)
	}
	if p.copies = p.copies || errors.Is(err, fabric.ErrNotSupported); p.copies {
		e.askForCopies(t)
		return
	}
	e.pulled(t.req, err)
}

// push writes pieces from the back until all are claimed, and says how many.
func (e *Engine) push(t *transfer) {
	ep, buf := e.peer(t.peer).ep, t.req.buf
	var err error
	claimed := 0
	t.running = true
	e.unlock()
	n := pieces(t.bytes)
	for i := claimBack(t.claims, n); i >= 0 && err == nil; i = claimBack(t.claims, n) {
		claimed++
		from, to := piece(i, t.bytes)
		key := t.key
		key.Addr += uint64(from)
		if _, err = ep.Write(buf[from:to], t.local.Local, key, 0); err == nil {
			t.helping++
		}
	}
	e.lock()
	t.running = false
	if claimed > 0 {
		e.note(t.peer, envelope{kind: kindWrote}, t.id, uint64(t.helping))
	}
	switch after := t.after; {
	case after == kindFin:
		e.sentAll(t.req)
	case after == kindSend:
		e.copyOut(t.req, t.wanted)
	}
	t.after = 0
}

// pulled ends a receive by reading, and lets the sender go on.
func (e *Engine) pulled(r *Request, err error) {
	if err != nil {
		err = e.refused(r.move.peer, err)
	}
	e.note(r.move.peer, envelope{kind: kindFin}, r.move.id)
	e.received(r, err)
}

// protocol is how a message came, as it is recorded.
func (t *transfer) protocol() perf.Protocol {
	switch {
	case t.form == copying:
		return perf.Copied
	case t.claims != nil:
		return perf.Shared
	}
	return perf.Read
}

// received ends a receive by transfer.
func (e *Engine) received(r *Request, err error) {
	t := &r.move
	if err == nil {
		e.linkTo(t.peer).InBy(t.protocol(), t.bytes)
	}
	t.form = nothing
	if err == nil {
		err = r.verdict
	}
	if t.local != (regcache.Memory{}) {
		err = errors.Join(err, e.peer(t.peer).way.release(t.local))
		t.local = regcache.Memory{}
	}
	if err == nil && t.whole != len(r.buf) {
		err = e.misfit(r, t.whole)
	}
	e.complete(r, err)
}

// moved handles the end of a read that did not finish at once.
func (e *Engine) moved(token uint64, err error) {
	r := e.byID(token)
	if r != nil && r.send && r.move.form == putting {
		e.written(r, err)
		return
	}
	if r == nil || r.send || r.move.form != reading {
		return
	}
	if err != nil {
		e.pulled(r, err)
		return
	}
	e.readDone(&r.move)
}
