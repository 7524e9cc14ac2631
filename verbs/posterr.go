package verbs

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// What is here runs only when a request is refused.

func detail(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func (q *QP) refusePost(op Opcode, id uint64, kind error, format string, args ...any) error {
	return &Error{Op: "post a " + op.String(), Device: q.ctx.name, QPN: q.num, ID: id, Post: true, Kind: kind,
		Detail: detail(format, args...)}
}

// ended is why nothing can be posted any more. The caller holds the lock.
func (q *QP) ended() error {
	if q.send.state == sendLost {
		return ErrDeviceLost
	}
	return ErrClosed
}

// whyNot says why put refused a request before it looked at the list.
func (q *QP) whyNot(w words, sge, inline int) error {
	s := &q.send
	switch {
	case s.state >= sendClosed:
		return q.refusePost(w.op, w.id, q.ended(), "")
	case s.allowed>>w.op&1 == 0:
		return q.refusePost(w.op, w.id, ErrInvalid, "a queue pair of type %v does not have this operation", q.cfg.Type)
	case s.state == sendNotReady:
		return q.refusePost(w.op, w.id, ErrState, "it has not reached RTS")
	case sge > len(s.sge):
		return q.refusePost(w.op, w.id, ErrInvalid, "%d entries in the list, and the pair was made for %d", sge, len(s.sge))
	}
	return q.refusePost(w.op, w.id, ErrInvalid, "%d bytes inline, and the pair was made for %d", inline, len(s.inline))
}

func (q *QP) whyNotSize(w words, total uint64) error {
	switch {
	case total > q.send.longest && q.cfg.Type == UD:
		return q.refusePost(w.op, w.id, ErrInvalid, "%d bytes, and a datagram has the path MTU at most, %d", total, q.send.longest)
	case total > q.send.longest:
		return q.refusePost(w.op, w.id, ErrInvalid, "%d bytes, and the port takes messages of %d", total, q.send.longest)
	}
	return q.refusePost(w.op, w.id, ErrInvalid,
		"atomics need one entry of eight bytes and an address aligned to eight, not %d bytes and %#x", total, w.at.Addr)
}

func (q *QP) failPost(w words, err error) error {
	e := &Error{Op: "post a " + w.op.String(), Device: q.ctx.name, QPN: q.num, ID: w.id, Post: true, Kind: kindOf(err), Err: err,
		Dropped: dropped(err)}
	if errors.Is(err, ib.ErrFull) {
		e.Kind, e.Err, e.Detail = ErrFull, nil, detail("%d requests", q.ib.Cap().SendWR)
	}
	return e
}
