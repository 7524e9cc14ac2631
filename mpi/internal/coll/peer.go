package coll

import "github.com/ibrun/ibrun/mpi/internal/datatype"

// Peer sends bytes between the ranks of one communicator, apart from what its users send. Messages from one rank to
// another arrive in the order in which they were sent and are received in that order; lengths of both sides agree.
// A rank never sends to itself. Calls come from one goroutine at a time.
type Peer interface {
	// Rank is the number of this rank in the communicator.
	Rank() int
	// Size is the number of ranks in the communicator.
	Size() int
	// Send returns when b may be reused; the receiver may not have it yet, or Send may wait until it does.
	Send(dst int, b []byte) error
	// Recv returns when the next message from src is in b.
	Recv(src int, b []byte) error
	// Sendrecv sends s and receives r at the same time. The two do not overlap.
	Sendrecv(dst int, s []byte, src int, r []byte) error
	// Isend begins to send; b is unchanged until Waitall returned.
	Isend(dst int, b []byte) (Handle, error)
	// Irecv begins to receive; b is not touched until Waitall returned.
	Irecv(src int, b []byte) (Handle, error)
	// Waitall waits for all of these to end and returns their first error. It may be called with none.
	Waitall(hs []Handle) error
	// Scratch lends n bytes of temporary memory, aligned to 16 bytes and with any contents, until the next
	// collective of this communicator. Successive calls lend disjoint pieces.
	Scratch(n int) []byte
}

// Handle names a send or receive that has begun. Its contents are the Peer's own.
type Handle struct{ A, B uint64 }

// Operation is a reduction as algorithms see it.
type Operation struct {
	// Kernel combines elements: dst[i] = a[i] op b[i], a being of the lower ranks.
	Kernel datatype.Func
	// ElemSize is the bytes of an element; buffers hold whole elements and are cut only between them.
	ElemSize int
	// Commutative allows to combine ranks in any order.
	Commutative bool
}

// Layout tells where the blocks of the ranks lie in a buffer: rank i's has Counts[i] elements and begins at element
// Displs[i]. An element has Elem bytes.
type Layout struct {
	Counts, Displs []int
	Elem           int
}

// block is the part of buf that is rank i's.
func (l *Layout) block(buf []byte, i int) []byte {
	lo := l.Displs[i] * l.Elem
	hi := lo + l.Counts[i]*l.Elem
	if lo == hi { // the displacement of an empty block may be anywhere
		return nil
	}
	return buf[lo:hi:hi]
}

// inPlace tells whether two buffers start at the same byte.
func inPlace(dst, src []byte) bool {
	return len(dst) > 0 && len(src) > 0 && &dst[0] == &src[0]
}

// cut divides count elements of some bytes into parts as equal as can be, the first ones being larger by one element.
type cut struct{ count, elem, parts int }

// start is the offset in bytes where part i begins; start(parts) is the end.
func (c cut) start(i int) int {
	return (i*(c.count/c.parts) + min(i, c.count%c.parts)) * c.elem
}

// of is part i of buf.
func (c cut) of(buf []byte, i int) []byte { return c.span(buf, i, i+1) }

// span is parts i to j of buf, without j.
func (c cut) span(buf []byte, i, j int) []byte { return buf[c.start(i):c.start(j)] }

// nth is block i of a buffer of equal blocks of n bytes.
func nth(buf []byte, i, n int) []byte { return buf[i*n : (i+1)*n : (i+1)*n] }

// mod is x modulo n for -n <= x < 2n.
func mod(x, n int) int {
	if x < 0 {
		return x + n
	}
	if x >= n {
		return x - n
	}
	return x
}
