// Package coll holds the algorithms of collective operations. It knows bytes and ranks; checking what the user
// passed, Go's types and the choice of communicator are the business of package mpi.
//
// There are two families. The functions of this package ([Barrier], [Bcast], [Allreduce], ...) send messages through a
// [Peer] and work anywhere. The methods of [Flat] do the same over memory that all ranks of a communicator have mapped;
// they win where a message would cost more than what it carries, and where there are more ranks than cores.
//
//	if flat != nil && flat.Prefers(coll.OfAllreduce, len(src)) {
//		return flat.Allreduce(dst, src, &op)
//	}
//	return coll.Allreduce(peer, dst, src, &op)
//
// Which algorithm runs is looked up in one table, [Rules], by collective, bytes and ranks; each algorithm has a
// file of its own, which opens with what it costs. In the formulas n is the number of ranks, m the bytes of the
// message, a the time of an empty message, b the time per byte sent and g the time per byte reduced; lg is the
// logarithm to base 2, rounded up.
//
// # Buffers
//
// Where every rank contributes the same number of bytes, that number is the length of the buffers divided as the
// operation says, and it is the same at all ranks; zero is fine. In the forms with a v a [Layout] says where blocks
// are.
//
// A collective is in place where dst and src start at the same byte. In Gather, Allgather and Scatter the rank's
// own block then is, or stays, at its place in the whole buffer. Other overlap is not allowed. Buffers belong to
// the collective until it returns. A rank that an operation gives no result leaves its dst untouched; it may be
// nil.
//
// # Order of reductions
//
// Operands are combined in the order of ranks unless the operation is commutative, and then in an order that
// depends only on the length and the number of ranks. Every rank of an Allreduce gets the same bits.
//
// # Calls and errors
//
// All ranks of a communicator call its collectives in the same order, with the same root, operation and lengths.
// One collective runs at a time on a communicator, and so on a Peer or a Flat. Errors are those of the Peer or
// Waiter as they are, since the caller knows what it asked for; after one the communicator's contents are
// undefined.
package coll
