package core

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// PsendInit creates a persistent partitioned send of the elements of b.
func (c *Comm) PsendInit(b []byte, k Elements, partitions, dst, tag int) (Request, error) {
	return c.psendInit(proto.Partitions{Buf: b, Kind: uint32(k.kind), Count: partitions}, nil, len(b)/k.Size(), dst, tag)
}

// PsendInitData creates a persistent partitioned send of the elements of d. They belong to n values
// of a slice, which are not divided; 0: it is a view, which is divided between any of its elements.
func (c *Comm) PsendInitData(d *datatype.Buffer, n, partitions, dst, tag int) (Request, error) {
	return c.psendInit(partitionsOfData(d, partitions), d, n, dst, tag)
}

func (c *Comm) psendInit(x proto.Partitions, d *datatype.Buffer, n, dst, tag int) (r Request, err error) {
	const op = "PsendInit"
	to, ok := c.fastSendRoute(dst, tag)
	if !ok {
		if to, err = c.slowSendRoute(op, dst, tag); err != nil {
			return r, err
		}
	}
	if err := c.checkPartitions(op, &x, d, n); err != nil {
		return r, err
	}
	to.Context, to.Op = c.contextID|collectiveBit, perf.Start
	h, err := c.engine.Schedules().PsendInit(to, x)
	return Request{h}, c.wrapError(op, err)
}

var errPartitionWildcard = errors.New("a partitioned receive needs one source and one tag")

// PrecvInit creates a persistent partitioned receive into the elements of b.
func (c *Comm) PrecvInit(b []byte, k Elements, partitions, src, tag int) (Request, error) {
	return c.precvInit(proto.Partitions{Buf: b, Kind: uint32(k.kind), Count: partitions}, nil, len(b)/k.Size(), src, tag)
}

// PrecvInitData creates a persistent partitioned receive into the elements of d. They belong to n values
// of a slice, which are not divided; 0: it is a view, which is divided between any of its elements.
func (c *Comm) PrecvInitData(d *datatype.Buffer, n, partitions, src, tag int) (Request, error) {
	const op = "PrecvInit"
	if err := c.checkUsable(op); err != nil {
		return Request{}, err
	}
	if err := c.checkSink(op, d); err != nil {
		return Request{}, err
	}
	return c.precvInit(partitionsOfData(d, partitions), d, n, src, tag)
}

func (c *Comm) precvInit(x proto.Partitions, d *datatype.Buffer, n, src, tag int) (r Request, err error) {
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
	if err := c.checkPartitions(op, &x, d, n); err != nil {
		return r, err
	}
	from.Context, from.Op = c.contextID|collectiveBit, perf.Start
	return Request{c.engine.Schedules().PrecvInit(from, x)}, nil
}

// partitionsOfData returns one side of a partitioned message of the elements of d, which are copied if they are not one block.
func partitionsOfData(d *datatype.Buffer, count int) proto.Partitions {
	x := proto.Partitions{Kind: partitionKind(d), Count: count}
	b, ok := d.Contiguous()
	if x.Buf = b; !ok {
		data := *d
		x.Buf, x.Data = make([]byte, d.Size()), &data
	}
	return x
}

// mixedKind is set in the kind of elements that are of several kinds; the other bits are of their signature.
const mixedKind = 1 << 31

// partitionKind returns what is compared of the elements of the two sides; 0: nothing.
func partitionKind(d *datatype.Buffer) uint32 {
	switch k := d.Kind(); {
	case d.Size() == 0, k == datatype.Packed:
		return 0
	case k == datatype.Long:
		return uint32(datatype.Int64)
	case k == datatype.ULong:
		return uint32(datatype.Uint64)
	case k != 0:
		return uint32(k)
	}
	s, _ := d.SignatureOf(d.Size())
	return mixedKind | uint32(s.Hash^s.Hash>>31)
}

// checkPartitions checks the arguments of one side of a partitioned message of n values, or of the elements of d.
func (c *Comm) checkPartitions(op string, x *proto.Partitions, d *datatype.Buffer, n int) error {
	switch count := x.Count; {
	case count < 1 || count > proto.MaxPartitions:
		return c.newError(op, ErrCount, fmt.Errorf("%d partitions; want 1 to %d", count, proto.MaxPartitions))
	case n%count != 0:
		return c.newError(op, ErrCount, fmt.Errorf("%d elements cannot be divided evenly into %d partitions", n, count))
	case d != nil && !divides(count, d):
		return c.newError(op, ErrCount,
			fmt.Errorf("a view of %d bytes cannot be divided evenly, between its elements, into %d partitions", d.Size(), count))
	}
	x.Failed = func(err error) { c.coll.main.markFailed(err) }
	return nil
}

// divides reports whether partitions of equal length begin and end between elements of d.
func divides(partitions int, d *datatype.Buffer) bool {
	n := int64(partitions)
	if d.Size()%n != 0 {
		return false
	}
	for i := range n {
		if _, ok := d.SignatureOf(i * (d.Size() / n)); !ok {
			return false
		}
	}
	return true
}

var errZeroRequest = errors.New("the zero Request")

// Pready says that the partitions low to high of a partitioned send, both included, are ready.
func (r Request) Pready(op string, low, high int) error {
	if r.h.Zero() {
		return newError(op, ErrRequest, errZeroRequest)
	}
	return partitionError(r.h.Engine(), op, r.h.Engine().Schedules().Pready(r.h, low, high))
}

// Parrived reports whether a partition of a partitioned receive has arrived.
func (r Request) Parrived(partition int) (bool, error) {
	const op = "Parrived"
	if r.h.Zero() {
		return false, newError(op, ErrRequest, errZeroRequest)
	}
	ok, err := r.h.Engine().Schedules().Parrived(r.h, partition)
	return ok, partitionError(r.h.Engine(), op, err)
}

// partitionError is requestError, with the class of a wrong partition.
func partitionError(e *proto.Engine, op string, err error) error {
	if errors.Is(err, proto.ErrPartition) {
		return newError(op, ErrArg, err)
	}
	return requestError(e, op, err)
}
