package core

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

var errOverlap = errors.New("the send buffer and the receive buffer overlap")

// Sendrecv sends s and receives into r at the same time.
func (c *Comm) Sendrecv(s []byte, dst, stag int, r []byte, src, rtag int) (Status, error) {
	const op = "Sendrecv"
	to, ok := c.fastSendRoute(dst, stag)
	if !ok {
		var err error
		if to, err = c.slowSendRoute(op, dst, stag); err != nil {
			return emptyStatus, err
		}
	}
	from, err := c.recvRoute(op, src, rtag)
	if err == nil && overlap(s, r) {
		err = c.newError(op, ErrBuffer, errOverlap)
	}
	if err != nil {
		return emptyStatus, err
	}
	to.Op, from.Op = perf.Sendrecv.Within(), perf.Sendrecv.Within()
	began := c.engine.Recording().BeginOp(perf.Sendrecv, len(s)+len(r))
	h := c.engine.Irecv(from, r)
	if err := c.engine.Send(to, s, proto.Standard); err != nil {
		c.cancelRecv(h)
		return emptyStatus, c.wrapError(op, err)
	}
	st, err := c.engine.Wait(h)
	c.engine.Recording().EndOp(perf.Sendrecv, to.Moves(len(s))+st.Bytes, began)
	if err != nil {
		return statusOf(st), c.wrapError(op, err)
	}
	return statusOf(st), nil
}

// cancelRecv ends a receive, so that nothing writes to its buffer any more.
func (c *Comm) cancelRecv(h proto.Handle) {
	_ = c.engine.Requests().Cancel(h) // it may have completed; the caller returns the earlier error
	_, _ = c.engine.Wait(h)
}
