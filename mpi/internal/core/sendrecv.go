package core

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
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
	// The receive is first: if both ranks began with a long send, each would block until the other
	// receives.
	h := c.engine.Irecv(from, r)
	if err := c.engine.Send(to, s, proto.Standard); err != nil {
		cancelRecv(c.engine, h)
		return emptyStatus, c.wrapError(op, err)
	}
	st, err := c.engine.Requests().Wait(h)
	c.engine.Recording().EndOp(perf.Sendrecv, to.Moves(len(s))+st.Bytes, began)
	if err != nil {
		return statusOf(st), c.wrapError(op, err)
	}
	return statusOf(st), nil
}

// cancelRecv ends a receive, so that nothing writes to its buffer any more.
func cancelRecv(e *proto.Engine, h proto.Handle) {
	_ = e.Requests().Cancel(h) // it may have completed; the caller returns the earlier error
	_, _ = e.Requests().Wait(h)
}

// SendrecvData sends the elements of s and receives into those of r at the same time. They may be
// in the same memory, but no byte may be in both.
func (c *Comm) SendrecvData(s *datatype.Buffer, dst, stag int, r *datatype.Buffer, src, rtag int) (Status, error) {
	const op = "Sendrecv"
	sb, sOK := s.Contiguous()
	rb, rOK := r.Contiguous()
	bytes := sOK && rOK
	// Checked calls take the path of views also for bytes: it sends a note with the type of the
	// elements.
	if bytes && !c.isChecked() {
		return c.Sendrecv(sb, dst, stag, rb, src, rtag)
	}
	to, from, err := c.exchangeRoutes(op, dst, stag, r, src, rtag)
	if err == nil && bytes && overlap(sb, rb) {
		err = c.newError(op, ErrBuffer, errOverlap)
	}
	if err != nil {
		return emptyStatus, err
	}
	return c.exchange(op, to, from, s, s, r)
}

// SendrecvReplace sends the elements of d, and receives into them.
func (c *Comm) SendrecvReplace(d *datatype.Buffer, dst, stag, src, rtag int) (Status, error) {
	const op = "SendrecvReplace"
	to, from, err := c.exchangeRoutes(op, dst, stag, d, src, rtag)
	if err != nil {
		return emptyStatus, err
	}
	p := c.proc.packings.take()
	defer c.proc.packings.put(p)
	b := p.take(int(d.Size()))
	d.Pack(b, 0) // what arrives may be stored in d before all of d has been sent
	packed := datatype.Numbers(b, datatype.Byte)
	return c.exchange(op, to, from, &packed, d, d)
}

// exchangeRoutes checks the arguments of a call that sends and receives, and returns both routes.
func (c *Comm) exchangeRoutes(op string, dst, stag int, r *datatype.Buffer, src, rtag int) (to, from proto.Route, err error) {
	if to, err = c.sendRoute(op, dst, stag); err == nil {
		from, err = c.sinkRoute(op, r, src, rtag)
	}
	to.Op, from.Op = perf.Sendrecv.Within(), perf.Sendrecv.Within()
	return to, from, err
}

// exchange sends the data of s, which a note describes as the elements of as, and receives into
// those of r at the same time. The receive is started first, so that it is there when the message
// of the other rank arrives.
func (c *Comm) exchange(op string, to, from proto.Route, s, as, r *datatype.Buffer) (Status, error) {
	const call = perf.Sendrecv
	began := c.engine.Recording().BeginOp(call, int(s.Size()+r.Size()))
	h := c.engine.IrecvData(from, r, c.note(from.Op, r))
	if err := c.engine.SendData(to, s, proto.Standard, c.note(to.Op, as)); err != nil {
		cancelRecv(c.engine, h)
		return emptyStatus, c.wrapError(op, err)
	}
	st, err := c.engine.Requests().WaitAs(call.Within(), h)
	c.engine.Recording().EndOp(call, to.Moves(int(s.Size()))+st.Bytes, began)
	return statusOf(st), c.wrapError(op, err)
}
