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

// whyNot says why a request is refused before anybody looks at its list. Like the next two it gives back the lock, which the
// caller holds.
func (q *QP) whyNot(op Opcode, id uint64, sge, inline int) error {
	s := &q.send
	defer s.mu.Unlock()
	switch {
	case s.state >= sendClosed:
		return q.refusePost(op, id, q.ended(), "")
	case s.allowed>>op&1 == 0:
		return q.refusePost(op, id, ErrInvalid, "a queue pair of type %v does not have this operation", q.cfg.Type)
	case s.state == sendNotReady:
		return q.refusePost(op, id, ErrState, "it has not reached RTS")
	case sge > len(s.sge):
		return q.refusePost(op, id, ErrInvalid, "%d entries in the list, and the pair was made for %d", sge, len(s.sge))
	}
	return q.refusePost(op, id, ErrInvalid, "%d bytes inline, and the pair was made for %d", inline, len(s.inline))
}

func (q *QP) whyNotSize(op Opcode, id uint64, total uint64) error {
	defer q.send.mu.Unlock()
	switch {
	case total > q.send.longest && q.cfg.Type == UD:
		return q.refusePost(op, id, ErrInvalid, "%d bytes, and a datagram has the path MTU at most, %d", total, q.send.longest)
	case total > q.send.longest:
		return q.refusePost(op, id, ErrInvalid, "%d bytes, and the port takes messages of %d", total, q.send.longest)
	}
	return q.refusePost(op, id, ErrInvalid,
		"atomics need one entry of eight bytes and an address aligned to eight, not %d bytes and %#x", total, q.send.wr.Remote)
}

func (q *QP) failPost(op Opcode, id uint64, err error) error {
	defer q.send.mu.Unlock()
	e := &Error{Op: "post a " + op.String(), Device: q.ctx.name, QPN: q.num, ID: id, Post: true, Kind: kindOf(err), Err: err,
		Dropped: dropped(err)}
	if errors.Is(err, ib.ErrFull) {
		e.Kind, e.Err, e.Detail = ErrFull, nil, detail("%d requests", q.ib.Cap().SendWR)
	}
	return e
}
