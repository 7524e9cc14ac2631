package core

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// PsendInit creates a persistent partitioned send of the elements of b.
func (c *Comm) PsendInit(b []byte, k Elements, partitions, dst, tag int) (r Request, err error) {
	const op = "PsendInit"
	to, ok := c.fastSendRoute(dst, tag)
	if !ok {
		if to, err = c.slowSendRoute(op, dst, tag); err != nil {
			return r, err
		}
	}
	x, err := c.partitionsOf(op, b, k, partitions)
	if err != nil {
		return r, err
	}
	to.Context, to.Op = c.contextID|collectiveBit, perf.Start
	h, err := c.engine.PsendInit(to, x)
	return Request{h}, c.wrapError(op, err)
}

var errPartitionWildcard = errors.New("a partitioned receive needs one source and one tag")

// PrecvInit creates a persistent partitioned receive into the elements of b.
func (c *Comm) PrecvInit(b []byte, k Elements, partitions, src, tag int) (r Request, err error) {
	const op = "PrecvInit"
	from, ok := c.fastRecvRoute(src, tag)
	if !ok {
		if from, err = c.slowRecvRoute(op, src, tag); err != nil {
			return r, err
		}
		switch {
		case src == AnySource:
			return r, c.newError(op, ErrRank, errPartitionWildcard)
		case tag == AnyTag:
			return r, c.newError(op, ErrTag, errPartitionWildcard)
		}
		from.Peer = proto.ProcNull
	}
	x, err := c.partitionsOf(op, b, k, partitions)
	if err != nil {
		return r, err
	}
	from.Context, from.Op = c.contextID|collectiveBit, perf.Start
	return Request{c.engine.PrecvInit(from, x)}, nil
}

// partitionsOf checks the arguments of one side of a partitioned message.
func (c *Comm) partitionsOf(op string, b []byte, k Elements, count int) (x proto.Partitions, err error) {
	n := len(b) / k.Size()
	switch {
	case count < 1 || count > proto.MaxPartitions:
		return x, c.newError(op, ErrCount, fmt.Errorf("%d partitions; want 1 to %d", count, proto.MaxPartitions))
	case n%count != 0:
		return x, c.newError(op, ErrCount, fmt.Errorf("%d elements cannot be divided evenly into %d partitions", n, count))
	}
	return proto.Partitions{Buf: b, Count: count, Kind: uint32(k.kind), Failed: func(err error) { c.coll.markFailed(err) }}, nil
}

var errZeroRequest = errors.New("the zero Request")

// Pready says that the partitions low to high of a partitioned send, both included, are ready.
func (r Request) Pready(op string, low, high int) error {
	if r.h.Zero() {
		return newError(op, ErrRequest, errZeroRequest)
	}
	return partitionError(r.h.Engine(), op, r.h.Engine().Pready(r.h, low, high))
}

// Parrived reports whether a partition of a partitioned receive has arrived.
func (r Request) Parrived(partition int) (bool, error) {
	const op = "Parrived"
	if r.h.Zero() {
		return false, newError(op, ErrRequest, errZeroRequest)
	}
	ok, err := r.h.Engine().Parrived(r.h, partition)
	return ok, partitionError(r.h.Engine(), op, err)
}

// partitionError is requestError, with the class of a wrong partition.
func partitionError(e *proto.Engine, op string, err error) error {
	if errors.Is(err, proto.ErrPartition) {
		return newError(op, ErrArg, err)
	}
	return requestError(e, op, err)
}
