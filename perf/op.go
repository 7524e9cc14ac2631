package perf

import (
	"fmt"
	"math/bits"

	"github.com/ibrun/ibrun/internal/transports"
)

// Op is a call of package mpi. The numbers are part of the layout of pages: new ones are added at the end.
type Op uint8

// The operations. NoOp means no operation: it is not counted. Calls that complete several requests, or none, have no bytes; the
// bytes of Irecv and Imrecv are the length of the buffer, because the length of the message is not known yet.
const (
	NoOp Op = iota
	Send
	Ssend
	Bsend
	Rsend
	Isend
	Issend
	Ibsend
	Irsend
	Recv
	Irecv
	Sendrecv
	Probe
	Iprobe
	Mprobe
	Improbe
	Mrecv
	Imrecv
	Wait
	Test
	Waitall
	Testall
	Waitany
	Testany
	Waitsome
	Testsome
	Start
	Startall
	Barrier
	Bcast
	Reduce
	Allreduce
	ReduceScatter
	Scan
	Exscan
	Gather
	Gatherv
	Scatter
	Scatterv
	Allgather
	Allgatherv
	Alltoall
	Alltoallv
	Dup
	Split
	Create
	Free
	Finalize
	Put
	Get
	Accumulate
	Fence
	Lock
	Flush
	DupWithInfo
	Idup
	IdupWithInfo
	SplitType
	Merge
	CommFromGroup
	IntercommFromGroups
	DistGraphCreate
	DistGraphCreateAdjacent
	SetInfo
	Disconnect
	SessionClose
	CreateGroup
	CreateIntercomm
	CartCreate
	CartSub
	GraphCreate
	Ibarrier
	Ibcast
	Ireduce
	Iallreduce
	IreduceScatter
	Iscan
	Iexscan
	Igather
	Igatherv
	Iscatter
	Iscatterv
	Iallgather
	Iallgatherv
	Ialltoall
	Ialltoallv
	NeighborAllgather
	NeighborAllgatherv
	NeighborAlltoall
	NeighborAlltoallv
	ReduceScatterBlock
	IneighborAllgather
	IneighborAllgatherv
	IneighborAlltoall
	IneighborAlltoallv
	IreduceScatterBlock
	Alltoallw
	NeighborAlltoallw
	Ialltoallw
	IneighborAlltoallw
	ops // number of operations of this version
)

// Within returns o marked as a part of an operation, such as the messages of a collective: it is shown as the operation while it
// waits, and is not counted.
func (o Op) Within() Op { return o | maxOps }

// IsWithin reports whether o has the mark of Within.
func (o Op) IsWithin() bool { return o&maxOps != 0 }

// IsCollective reports whether o is a collective operation.
func (o Op) IsCollective() bool {
	o &^= maxOps
	return o >= Barrier && o <= Finalize || o == Fence || o >= DupWithInfo && o <= CreateIntercomm ||
		o >= Ibarrier && o <= IneighborAlltoallw
}

// IsImmediateCollective reports whether o starts a collective operation, which a Wait completes.
func (o Op) IsImmediateCollective() bool {
	o &^= maxOps
	return o >= Ibarrier && o <= Ialltoallv || o >= IneighborAllgather && o <= IreduceScatterBlock ||
		o >= Ialltoallw && o <= IneighborAlltoallw
}

// Blocking returns the blocking form of an immediate collective, and other operations as they are. The immediate ones are in the
// same order.
func (o Op) Blocking() Op {
	switch {
	case !o.IsImmediateCollective():
		return o
	case o&^maxOps <= Ialltoallv:
		return o - Ibarrier + Barrier
	case o&^maxOps <= IreduceScatterBlock:
		return o - IneighborAllgather + NeighborAllgather
	}
	return o - Ialltoallw + Alltoallw
}

// counted reports whether calls of o are counted.
func (o Op) counted() bool { return o-1 < maxOps-1 }

// maxOps is the number of operations that a page has room for.
const maxOps = 128

var names = [ops]string{
	"other", "Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend", "Recv", "Irecv", "Sendrecv",
	"Probe", "Iprobe", "Mprobe", "Improbe", "Mrecv", "Imrecv",
	"Wait", "Test", "Waitall", "Testall", "Waitany", "Testany", "Waitsome", "Testsome", "Start", "Startall",
	"Barrier", "Bcast", "Reduce", "Allreduce", "ReduceScatter", "Scan", "Exscan",
	"Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall", "Alltoallv",
	"Dup", "Split", "Create", "Free", "Finalize", "Put", "Get", "Accumulate", "Fence", "Lock", "Flush",
	"DupWithInfo", "Idup", "IdupWithInfo", "SplitType", "Merge", "CommFromGroup", "IntercommFromGroups",
	"DistGraphCreate", "DistGraphCreateAdjacent", "SetInfo", "Disconnect", "Session.Close",
	"CreateGroup", "CreateIntercomm", "CartCreate", "CartSub", "GraphCreate",
	"Ibarrier", "Ibcast", "Ireduce", "Iallreduce", "IreduceScatter", "Iscan", "Iexscan", "Igather",
	"Igatherv", "Iscatter", "Iscatterv", "Iallgather", "Iallgatherv", "Ialltoall", "Ialltoallv",
	"NeighborAllgather", "NeighborAllgatherv", "NeighborAlltoall", "NeighborAlltoallv", "ReduceScatterBlock",
	"IneighborAllgather", "IneighborAllgatherv", "IneighborAlltoall", "IneighborAlltoallv", "IreduceScatterBlock",
	"Alltoallw", "NeighborAlltoallw", "Ialltoallw", "IneighborAlltoallw",
}

// String returns the operation's name in package mpi, such as "Allreduce".
func (o Op) String() string {
	if o &^= maxOps; o < ops { // with or without the mark of Within
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Ops returns all operations except NoOp, in ascending order.
func Ops() []Op {
	all := make([]Op, 0, ops-1)
	for o := NoOp + 1; o < ops; o++ {
		all = append(all, o)
	}
	return all
}

// Direction is the direction of the payload of an operation.
type Direction uint8

// The directions. Collectives have both, and calls such as Wait have no payload.
const (
	Neither Direction = iota
	Out
	In
	Both
)

// String returns "none", "out", "in" or "both".
func (d Direction) String() string { return [...]string{"none", "out", "in", "both"}[d&3] }

// Direction returns the direction of the operation's payload.
func (o Op) Direction() Direction {
	switch {
	case o >= Send && o <= Irsend, o == Put, o == Accumulate:
		return Out
	case o == Recv, o == Irecv, o == Mrecv, o == Imrecv, o == Get:
		return In
	case o == Sendrecv, o.Blocking() > Barrier && o.Blocking() <= Alltoallv, o >= NeighborAllgather && o <= IneighborAlltoallw:
		return Both
	}
	return Neither
}

// Class is a class of message sizes: powers of eight, from at most 64 bytes.
type Class uint8

// Classes is the number of size classes.
const Classes = 8

// ClassOf returns the class of an operation on n bytes.
func ClassOf(n int) Class {
	if n <= 64 {
		return 0
	}
	return min(Class((bits.Len64(uint64(n-1))-4)/3), Classes-1)
}

// Max returns the largest size in the class in bytes; -1 for the last class, which has no limit.
func (c Class) Max() int {
	if c >= Classes-1 {
		return -1
	}
	return 64 << (3 * c)
}

// String returns the largest size, "64", "512", "4Ki", and "more" for the last class.
func (c Class) String() string {
	if c >= Classes {
		return fmt.Sprintf("Class(%d)", uint8(c))
	}
	return [Classes]string{"64", "512", "4Ki", "32Ki", "256Ki", "2Mi", "16Mi", "more"}[c]
}

// Transport identifies a transport of package fabric.
type Transport uint8

// The transports. OtherTransport is any transport that is unknown to this version.
const (
	OtherTransport = Transport(transports.Other)
	Mem            = Transport(transports.Mem)
	Shm            = Transport(transports.Shm)
	TCP            = Transport(transports.TCP)
	RDMA           = Transport(transports.RDMA)
	Transports     = Transport(transports.Count) // number of them
)

// String returns the name of the transport in package fabric, or "other".
func (t Transport) String() string { return transports.Transport(t).String() }

// TransportNamed returns the transport with this name in package fabric.
func TransportNamed(name string) Transport { return Transport(transports.Named(name)) }

// Protocol is the protocol by which a message is transferred.
type Protocol uint8

// The protocols: eager in one message (Eager); eager in fragments (Parts); rendezvous, read by the receiver, or written by the
// sender after an RTR (Read); rendezvous, copied by both sides (Shared); rendezvous, sent in fragments (Copied).
const (
	Eager Protocol = iota
	Parts
	Read
	Shared
	Copied
	Protocols // number of them
)

// String returns "eager", "parts", "read", "shared" or "copied".
func (p Protocol) String() string {
	if p < Protocols {
		return [Protocols]string{"eager", "parts", "read", "shared", "copied"}[p]
	}
	return fmt.Sprintf("Protocol(%d)", uint8(p))
}
