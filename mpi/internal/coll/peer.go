package coll

import "github.com/ibrun/ibrun/mpi/internal/reduction"

// Peer sends bytes between the ranks of one communicator, separately from the messages of its users. Messages from one rank to
// another arrive in the order in which they were sent and are received in that order; the lengths at both sides agree.
// A rank never sends to itself. Calls come from one goroutine at a time.
type Peer interface {
	// Rank returns the number of this rank in the communicator.
	Rank() int
	// Size returns the number of ranks in the communicator.
	Size() int
	// Send blocks until b may be reused: either immediately, or until the receiver has the message.
	Send(dst int, b []byte) error
	// Recv blocks until the next message from src is in b.
	Recv(src int, b []byte) error
	// Sendrecv sends s and receives r at the same time. The two do not overlap.
	Sendrecv(dst int, s []byte, src int, r []byte) error
	// Isend begins to send; b must not change until Waitall has returned.
	Isend(dst int, b []byte) (Handle, error)
	// Irecv begins to receive; b must not be touched until Waitall has returned.
	Irecv(src int, b []byte) (Handle, error)
	// Waitall blocks until all of hs have completed and returns their first error. hs may be empty.
	Waitall(hs []Handle) error
	// Cancel ends sends and receives in progress after an error: nothing reads or writes their buffers any more.
	Cancel(hs []Handle)
	// Scratch returns n bytes of temporary memory, aligned to 16 bytes, with undefined contents. It is valid until the next
	// collective of this communicator. The results of successive calls are disjoint.
	Scratch(n int) []byte
	// Copy is the function copy. The buffers are those of the collective, or scratch memory.
	Copy(dst, src []byte)
	// Combine is op.Kernel, on such buffers.
	Combine(op *Operation, dst, a, b []byte)
	// Call calls f, which works on such buffers.
	Call(f func())
	// Table returns the rules that are searched first for an algorithm, the same at all ranks; nil: there are none.
	Table() *Table
	// Levels returns what algorithms on two levels need; nil at all ranks: they are not used.
	Levels() *Levels
}

// Local does Copy, Combine and Call at once, and has no Table and no Levels. Every Peer that does not record them embeds it.
type Local struct{}

// Copy is the function copy.
func (Local) Copy(dst, src []byte) { copy(dst, src) }

// Combine is op.Kernel.
func (Local) Combine(op *Operation, dst, a, b []byte) { op.Kernel(dst, a, b) }

// Call calls f.
func (Local) Call(f func()) { f() }

// Table returns nil.
func (Local) Table() *Table { return nil }

// Levels returns nil.
func (Local) Levels() *Levels { return nil }

// Handle identifies a send or receive in progress. Its contents are the Peer's own.
type Handle struct{ A, B uint64 }

// abandon ends the sends and receives that a collective has begun, and returns the error because of which it ends.
func abandon(p Peer, hs []Handle, err error) error {
	p.Cancel(hs)
	return err
}

// Operation is a reduction operation.
type Operation struct {
	// Kernel combines elements: dst[i] = a[i] op b[i], a being of the lower ranks.
	Kernel reduction.Func
	// ElemSize is the bytes of an element; buffers hold whole elements and are divided only between elements.
	ElemSize int
	// Commutative allows to combine ranks in any order.
	Commutative bool
	// Foreign says that Kernel calls a function of the program, which may panic or take long.
	Foreign bool
}

// Layout describes the blocks of the ranks in a buffer: that of rank i has Counts[i] elements and begins at element
// Displs[i]. An element has Elem bytes.
type Layout struct {
	Counts, Displs []int
	Elem           int
}

// block returns rank i's block of buf.
func (l *Layout) block(buf []byte, i int) []byte {
	lo := l.Displs[i] * l.Elem
	hi := lo + l.Counts[i]*l.Elem
	if lo == hi { // the displacement of an empty block may be anywhere
		return nil
	}
	return buf[lo:hi:hi]
}

// inPlace reports whether two buffers start at the same byte.
func inPlace(dst, src []byte) bool {
	return len(dst) > 0 && len(src) > 0 && &dst[0] == &src[0]
}

// partition divides count elements of elem bytes into parts of equal size; the first parts may be larger by one element.
type partition struct{ count, elem, parts int }

// start returns the offset in bytes where part i begins; start(parts) is the end.
func (c partition) start(i int) int {
	return (i*(c.count/c.parts) + min(i, c.count%c.parts)) * c.elem
}

// part returns part i of buf.
func (c partition) part(buf []byte, i int) []byte { return c.span(buf, i, i+1) }

// span returns parts i to j of buf, without j.
func (c partition) span(buf []byte, i, j int) []byte { return buf[c.start(i):c.start(j)] }

// blockAt returns block i of a buffer of equal blocks of n bytes.
func blockAt(buf []byte, i, n int) []byte { return buf[i*n : (i+1)*n : (i+1)*n] }

// mod returns x modulo n for -n <= x < 2n.
func mod(x, n int) int {
	if x < 0 {
		return x + n
	}
	if x >= n {
		return x - n
	}
	return x
}
