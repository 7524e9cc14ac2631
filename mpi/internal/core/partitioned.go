package core

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// The messages of a partitioned operation are in the context of collectives, where no receive of
// the program matches them.

// PsendInit creates a persistent partitioned send of the elements of d. They belong to n values of
// a slice, which are not divided; 0: it is a view, which is divided between any of its elements.
func PsendInit(c *Comm, d *datatype.Buffer, n, partitions, dst, tag int) (Request, error) {
	const op = "PsendInit"
	to, err := c.sendRoute(op, dst, tag)
	if err != nil {
		return Request{}, err
	}
	x, err := partitionsOf(d, n, partitions)
	if err != nil {
		return Request{}, c.wrapError(op, err)
	}
	to.Context, to.Op, x.Failed = c.contextID|collectiveBit, perf.Start, c.coll.main.partitionedFailed
	h, err := c.engine.Schedules().PsendInit(to, x)
	return Request{h}, c.wrapError(op, err)
}

var errPartitionWildcard = errors.New("a partitioned receive needs one source and one tag")

// PrecvInit creates a persistent partitioned receive into the elements of d, which are divided as
// in PsendInit.
func PrecvInit(c *Comm, d *datatype.Buffer, n, partitions, src, tag int) (Request, error) {
	const op = "PrecvInit"
	// recvRoute tests this too, but a communicator that cannot be used is the error to name before
	// those of the data.
	if err := c.checkUsable(op); err != nil {
		return Request{}, err
	}
	if err := checkSink(d); err != nil {
		return Request{}, c.wrapError(op, err)
	}
	from, err := c.recvRoute(op, src, tag)
	switch {
	case err != nil:
		return Request{}, err
	case src == AnySource:
		return Request{}, c.newError(op, ErrRank, errPartitionWildcard)
	case tag == AnyTag:
		return Request{}, c.newError(op, ErrTag, errPartitionWildcard)
	case src == ProcNull:
		from.Peer = proto.ProcNull
	}
	x, err := partitionsOf(d, n, partitions)
	if err != nil {
		return Request{}, c.wrapError(op, err)
	}
	from.Context, from.Op, x.Failed = c.contextID|collectiveBit, perf.Start, c.coll.main.partitionedFailed
	return Request{c.engine.Schedules().PrecvInit(from, x)}, nil
}

// partitionedFailed records that a partitioned message has failed. Collectives use the same
// context, so none can succeed any more.
func (g *collState) partitionedFailed(err error) { g.markFailed(err) }

// partitionsOf checks the arguments of one side of a partitioned message of the elements of d, and
// returns that side. Elements that are not one block are copied.
func partitionsOf(d *datatype.Buffer, n, count int) (x proto.Partitions, err error) {
	switch {
	case count < 1 || count > proto.MaxPartitions:
		return x, faultf(ErrCount, "%d partitions; want 1 to %d", count, proto.MaxPartitions)
	// Values of a slice are not divided, also where their elements could be.
	case n%count != 0:
		return x, faultf(ErrCount, "%d elements cannot be divided evenly into %d partitions", n, count)
	case !divides(count, d):
		return x, faultf(ErrCount, "a view of %d bytes cannot be divided evenly, between its elements, into %d partitions",
			d.Size(), count)
	}
	b, ok := d.Contiguous()
	x = proto.Partitions{Buf: b, Kind: partitionKind(d), Count: count}
	if !ok {
		// A copy, since the request keeps it, and d is a variable of the caller.
		data := *d
		x.Buf, x.Data = make([]byte, d.Size()), &data
	}
	return x, nil
}

// mixedKind is set in the kind of elements that are of several kinds; the other bits are of their
// signature.
const mixedKind = 1 << 31

// partitionKind returns what is compared of the elements of the two sides; 0: nothing.
func partitionKind(d *datatype.Buffer) uint32 {
	switch k := d.ElementKind(); {
	case k == datatype.Packed, k == 0 && d.Size() == 0:
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
