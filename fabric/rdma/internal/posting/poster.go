package posting

import (
	"errors"
	"sync"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/verbs"
)

// Poster is what the queue pairs of a domain share.
type Poster struct {
	Mu        sync.Mutex     // see the comment of the package
	Sends     messages.Slots // bounce buffers from which messages are sent; of the goroutine that calls Poll
	Transfers transfer.Pool
	KeyReads  transfer.KeyReads
	RingTimer *time.Timer // rings deferred doorbells in case that nothing calls Poll

	parts     parts
	doorbells doorbells
	queues    index // of the goroutine that calls Poll
}

// Init prepares a Poster for its first queue pair. ringsByCall says that a doorbell is a system
// call.
func (p *Poster) Init(ringsByCall bool) {
	p.queues.all = map[key]*QueuePair{}
	p.initDoorbells(ringsByCall)
}

// Find returns the queue pair with this number, nil if it is not one of a connection.
func (p *Poster) Find(r *Rail, qpn uint32) *QueuePair { return p.queues.find(r, qpn) }

// Attach sets the queue pairs of a new connection.
func (p *Poster) Attach(l *Lanes, queues []*QueuePair) {
	for _, q := range queues {
		p.queues.set(q)
		q.Pacer = transfer.NewPacer(q.Rail.Piece)
		if l.Window > 0 {
			q.Pacer.SetWindow(l.Window)
		}
	}
	l.set(queues)
}

// Keep closes queue pairs of a connection that is being made: those that keep returns false for.
// Nothing was posted to them. It takes the lock, and calls keep without it.
func (p *Poster) Keep(l *Lanes, keep func(*QueuePair) bool) {
	var kept, dropped []*QueuePair
	for _, q := range l.Queues {
		if keep(q) {
			kept = append(kept, q)
		} else {
			dropped = append(dropped, q)
		}
	}
	if len(dropped) == 0 {
		return
	}
	p.Mu.Lock()
	l.set(kept)
	for _, q := range dropped {
		p.queues.remove(q)
	}
	p.Mu.Unlock()
	for _, q := range dropped {
		_ = q.QP.Close() // an error leaves a queue pair that is not connected until the device is closed
	}
}

// Detach forgets the queue pairs of a connection, which are closed, with what is in flight. It
// returns the messages that were not acknowledged. The transfers are to be ended or restarted.
func (p *Poster) Detach(l *Lanes) (unacked []Request) {
	for _, q := range l.Queues {
		p.queues.remove(q)
		for q.InFlight() > 0 {
			switch r := q.pop(); r.Kind {
			case Message:
				unacked = append(unacked, *r)
			case Control, Disconnect:
				p.Sends.Give(r.Slot)
			case KeyRead:
				p.KeyReads.Give(r.Slot)
			}
		}
	}
	return unacked
}

// Forget makes the connection have no queue pairs, after Detach.
func (l *Lanes) Forget() {
	l.Window = l.Queues[0].Pacer.Window
	l.set(nil)
}

// ErrNoRoom is the error for a message that may be posted once others have completed, or once there
// is a connection.
var ErrNoRoom = errors.New("the queue has no room for a message")

// Message posts a message, if its share of the queue has room. It takes the lock. b is the message,
// which is in the slot of r. signal demands a completion. poll is the number of the Poll.
//
// If the doorbell is a store, Message rings it. If it is a system call, Message returns the queue
// pair if its doorbell is to be rung immediately: because this is the first message since the last
// Poll, which may be the only one, because nothing else is in flight, or because enough messages
// have gathered. Otherwise the next Poll rings it.
//
// Any error but ErrNoRoom means that the connection is broken.
func (p *Poster) Message(l *Lanes, r Request, b []byte, part Share, signal bool, poll uint) (ringNow *verbs.QP, err error) {
	p.Mu.Lock()
	if !l.CanPost || !l.Queues[0].hasRoom(part) {
		p.Mu.Unlock()
		return nil, ErrNoRoom
	}
	q := l.Queues[0]
	f := q.signalFlags(signal || q.Rail.inFlight >= q.Rail.SignalAll) | p.doorbells.atOnce
	if len(b) <= q.inline {
		err = q.QP.SendInline(q.nextID(), f, b)
	} else {
		err = q.QP.Send(q.nextID(), f, p.Sends.SGE(r.Slot, len(b)))
	}
	if err != nil {
		idle := q.InFlight() == 0
		p.Mu.Unlock()
		if !idle && errors.Is(err, verbs.ErrFull) { // there is room when others have completed
			err = ErrNoRoom
		}
		return nil, err
	}
	if p.doorbells.atOnce != 0 {
		q.push(r, f)
		q.unrung = 0
		p.Mu.Unlock()
		return nil, nil
	}
	first := q.lastPoll != poll || q.InFlight() == 0
	q.lastPoll = poll
	q.push(r, f)
	if first || q.unrung >= maxUnrung {
		ringNow, q.unrung = q.QP, 0
	} else {
		p.doorbells.deferRing(l)
		p.startTimer()
	}
	p.Mu.Unlock()
	return ringNow, nil
}

// Probe posts a WRITE of no bytes, and reports whether it did. It does not if there is no room,
// where other requests show whether the device works, or if the queue pair has failed, which its
// completions report.
func (p *Poster) Probe(q *QueuePair) bool {
	return p.postEmpty(q, Keepalive)
}

// postEmpty posts a WRITE of no bytes, if there is room.
func (p *Poster) postEmpty(q *QueuePair, k Kind) bool {
	f := verbs.Signaled | p.doorbells.atOnce
	if !q.hasRoom(ShareAll) || q.QP.Write(q.nextID(), f, verbs.Remote{}) != nil {
		return false
	}
	q.push(Request{Kind: k}, f)
	return true
}

// Complete removes the oldest request of a queue pair, which was carried out, and frees what it has
// used. r is valid until the next request is posted. For a piece, the caller sets r.Op to nil once it
// has used it; ended reports whether it was the last piece of the transfer, which the caller must end.
func (p *Poster) Complete(q *QueuePair) (r *Request, ended bool) {
	r = q.pop()
	switch r.Kind {
	case Message, Control, Disconnect:
		p.Sends.Give(r.Slot)
	case KeyRead:
		r.Op.TakeKeys(p.KeyReads.Row(r.Slot))
		p.KeyReads.Give(r.Slot)
		r.Op = nil
	case Piece:
		ended = r.Op.Complete(int(r.Bytes))
		q.Pacer.Done(int(r.Bytes))
	}
	return r, ended
}
