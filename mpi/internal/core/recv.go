package core

import "github.com/ibrun/ibrun/perf"

// Irecv starts a receive.
func (c *Comm) Irecv(b []byte, src, tag int) (Request, error) {
	from, err := c.recvRoute("Irecv", src, tag)
	if err != nil {
		return Request{}, err
	}
	from.Op = perf.Irecv
	return Request{c.engine.Irecv(from, b)}, nil
}

// Recv receives a message into b.
func (c *Comm) Recv(b []byte, src, tag int) (Status, error) {
	const op = "Recv"
	from, ok := c.fastRecvRoute(src, tag)
	if !ok {
		var err error
		if from, err = c.slowRecvRoute(op, src, tag); err != nil {
			return emptyStatus, err
		}
	}
	from.Op = perf.Recv
	st, err := c.engine.Recv(from, b)
	if err != nil {
		return statusOf(st), c.wrapError(op, err)
	}
	return statusOf(st), nil
}
