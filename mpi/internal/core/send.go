package core

import (
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Send sends b to rank dst in a mode.
func (c *Comm) Send(op perf.Op, b []byte, dst, tag int, m proto.Mode) error {
	to, ok := c.fastSendRoute(dst, tag)
	if !ok {
		var err error
		if to, err = c.slowSendRoute(op.String(), dst, tag); err != nil {
			return err
		}
	}
	to.Op = op
	if err := c.engine.Send(to, b, m); err != nil {
		return c.wrapError(op.String(), err)
	}
	return nil
}

// Isend starts a send.
func (c *Comm) Isend(op perf.Op, b []byte, dst, tag int, m proto.Mode) (Request, error) {
	to, ok := c.fastSendRoute(dst, tag)
	if !ok {
		var err error
		if to, err = c.slowSendRoute(op.String(), dst, tag); err != nil {
			return Request{}, err
		}
	}
	to.Op = op
	h, err := c.engine.Isend(to, b, m)
	if err != nil {
		return Request{}, c.wrapError(op.String(), err)
	}
	return Request{h}, nil
}
