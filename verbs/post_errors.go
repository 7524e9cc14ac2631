package verbs

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// The errors of posts to a send queue.

// postError returns an error of this package about a request.
func (q *QP) postError(op Opcode, id uint64, kind error, format string, args ...any) error {
	return &Error{Op: "post a " + op.String(), Device: q.ctx.name, QPN: q.num, ID: id, Post: true, Kind: kind,
		Detail: fmt.Sprintf(format, args...), Err: q.ctx.causeOf(kind)}
}

// closedKind returns why nothing can be posted any more. The caller must hold the lock of q.send.
func (q *QP) closedKind() error {
	if q.send.state.Load() == sendDeviceLost {
		return ErrDeviceLost
	}
	return ErrClosed
}

// refusePost returns why a request with so many list entries or inline bytes is refused. The caller must hold the lock of q.send.
func (q *QP) refusePost(op Opcode, id uint64, entries, inline int) error {
	s := &q.send
	state := s.state.Load()
	switch {
	case state >= sendClosed:
		return q.postError(op, id, q.closedKind(), "")
	case s.supported>>op&1 == 0:
		return q.postError(op, id, ErrInvalid, "a queue pair of type %v does not have this operation", q.cfg.Type)
	case state == sendNotReady:
		return q.postError(op, id, ErrState, "the queue pair is not in RTS yet")
	case entries > len(s.sge):
		return q.postError(op, id, ErrInvalid, "the list has %d entries; the queue pair takes at most %d", entries, len(s.sge))
	}
	return q.postError(op, id, ErrInvalid, "%d bytes inline; the queue pair takes at most %d", inline, len(s.inline))
}

// refuseSize returns why a request of so many bytes is refused. The caller must hold the lock of q.send.
func (q *QP) refuseSize(op Opcode, id uint64, total uint64) error {
	switch {
	case total > q.send.maxMessage && q.cfg.Type == UD:
		return q.postError(op, id, ErrInvalid, "%d bytes; a datagram has at most the path MTU, %d bytes", total, q.send.maxMessage)
	case total > q.send.maxMessage:
		return q.postError(op, id, ErrInvalid, "%d bytes; the port takes messages of %d bytes at most", total, q.send.maxMessage)
	}
	return q.postError(op, id, ErrInvalid,
		"an atomic operation needs one entry of eight bytes and a remote address aligned to eight; got %d bytes and %#x",
		total, q.send.wr.Remote)
}

// postFailed returns the error of a request that the provider refused.
func (q *QP) postFailed(op Opcode, id uint64, err error) error {
	e := &Error{Op: "post a " + op.String(), Device: q.ctx.name, QPN: q.num, ID: id, Post: true, Kind: kindOf(err), Err: err,
		Dropped: dropped(err)}
	if errors.Is(err, ib.ErrFull) {
		e.Kind, e.Err, e.Detail = ErrFull, nil, fmt.Sprintf("it holds %d requests", q.ib.Cap().SendWR)
	}
	return e
}
