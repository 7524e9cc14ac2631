// Package coll implements the algorithms of collective operations on bytes and ranks. Package core checks the arguments and
// provides the communicator.
//
// There are two families. The functions of this package ([Barrier], [Bcast], [Allreduce], ...) send messages through a
// [Peer] and work anywhere. The methods of [Shm] do the same over memory that all ranks of a communicator have mapped
// (files shm_*.go). They are faster for short data, and if there are more ranks than cores.
//
//	if shm != nil && shm.Select(coll.OfAllreduce, len(src)) != coll.None {
//		return shm.Allreduce(dst, src, &op)
//	}
//	return coll.Allreduce(peer, dst, src, &op)
//
// If the ranks are on several nodes, a Peer may have [Levels]: then some of these functions use algorithms on two levels (files
// *_two_level.go), which combine a Shm, a [ShmImmediates] or messages among the ranks of a node with messages between nodes. If
// the ranks of a node are on several NUMA nodes, some methods of a Shm have two levels as well (shm_numa.go).
//
// An algorithm does not touch the contents of buffers itself: it calls Copy and Combine of the Peer. So a [Plan], which is a Peer
// that only records, turns any algorithm into a list of steps: the schedule of an immediate collective.
//
// Two tables in select.go, rules and immediateRules, select the algorithm by collective, bytes and ranks. Each algorithm has a
// file of its own, named COLLECTIVE_ALGORITHM.go, whose comment says what it does and what it costs. In the formulas n is the
// number of ranks, m the bytes of the message, a the time of an empty message, b the time per byte sent and g the time per byte
// reduced; lg is the logarithm to base 2, rounded up.
//
// # Buffers
//
// If every rank contributes the same number of bytes, the buffers have that length, or that length times the number of ranks,
// as the operation requires; zero is valid. In the v-forms a [Layout] describes where blocks are.
//
// A collective is in place if dst and src start at the same byte. In Gather, Allgather and Scatter the rank's
// own block is then, or stays, at its position in the whole buffer. Other overlap is not allowed. Buffers belong to
// the collective until it returns. The dst of a rank without a result is not touched; it may be nil.
//
// # Order of reductions
//
// Operands are combined in rank order, or, if the operation is commutative, in an order that depends only on the length, the
// number of ranks, and which of them share a node and a NUMA node. Every rank of an Allreduce gets the same bits.
//
// # Calls and errors
//
// All ranks of a communicator call its collectives in the same order, with the same root, operation and lengths.
// One collective runs at a time on a communicator, and so on a Peer or a Shm. Errors of the Peer or
// WordSync are returned unchanged, since the caller knows the context. After an error the contents of the buffers are undefined.
package coll
