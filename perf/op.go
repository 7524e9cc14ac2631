package perf

import (
	"fmt"
	"math/bits"

	"github.com/ibrun/ibrun/internal/transports"
)

// Op is a call of the interface that programs use. Numbers are part of the page's layout: new ones go to the end.
type Op uint8

// The operations. NoOp is none: it is not counted. Calls that wait for several requests, or for none, carry no bytes; the
// bytes of Irecv and Imrecv are those of the buffer, since it has none of the message's yet.
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
	ops // how many this version names
)

// Within marks work that an operation does to be done itself, such as the messages of a collective: it is shown as the operation
// while it waits, and not counted.
func (o Op) Within() Op { return o | maxOps }

// IsWithin tells whether o is so marked.
func (o Op) IsWithin() bool { return o&maxOps != 0 }

// IsCollective tells whether all ranks of a communicator call o together.
func (o Op) IsCollective() bool {
	o &^= maxOps
	return o >= Barrier && o <= Finalize || o == Fence || o >= DupWithInfo && o <= SessionClose
}

// counted tells whether calls of o are.
func (o Op) counted() bool { return o-1 < maxOps-1 }

// maxOps is how many operations a page has room for.
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
}

// String is the operation's name as in package mpi, "Allreduce".
func (o Op) String() string {
	if o &^= maxOps; o < ops { // within it or not
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Ops returns all operations but NoOp, ascending.
func Ops() []Op {
	all := make([]Op, 0, ops-1)
	for o := NoOp + 1; o < ops; o++ {
		all = append(all, o)
	}
	return all
}

// Direction tells which way the payload of an operation goes.
type Direction uint8

// The directions. Collectives go both ways, and calls such as Wait carry nothing themselves.
const (
	Neither Direction = iota
	Out
	In
	Both
)

// String is "none", "out", "in" or "both".
func (d Direction) String() string { return [...]string{"none", "out", "in", "both"}[d&3] }

// Direction is the way of the operation's payload.
func (o Op) Direction() Direction {
	switch {
	case o >= Send && o <= Irsend, o == Put, o == Accumulate:
		return Out
	case o == Recv, o == Irecv, o == Mrecv, o == Imrecv, o == Get:
		return In
	case o == Sendrecv, o > Barrier && o <= Alltoallv:
		return Both
	}
	return Neither
}

// Class is a class of message sizes: powers of eight, from at most 64 bytes.
type Class uint8

// Classes is the number of size classes.
const Classes = 8

// ClassOf is the class of an operation on n bytes.
func ClassOf(n int) Class {
	if n <= 64 {
		return 0
	}
	return min(Class((bits.Len64(uint64(n-1))-4)/3), Classes-1)
}

// Max is the largest size in the class in bytes, -1 for the last, which is open.
func (c Class) Max() int {
	if c >= Classes-1 {
		return -1
	}
	return 64 << (3 * c)
}

// String is the largest size, "64", "512", "4Ki", and "more" for the last class.
func (c Class) String() string {
	if c >= Classes {
		return fmt.Sprintf("Class(%d)", uint8(c))
	}
	return [Classes]string{"64", "512", "4Ki", "32Ki", "256Ki", "2Mi", "16Mi", "more"}[c]
}

// Transport is what carries messages between two processes.
type Transport uint8

// The transports. OtherTransport stands for any that this version has no name for.
const (
	OtherTransport = Transport(transports.Other)
	Mem            = Transport(transports.Mem)
	Shm            = Transport(transports.Shm)
	TCP            = Transport(transports.TCP)
	RDMA           = Transport(transports.RDMA)
	Transports     = Transport(transports.Count) // how many there are
)

// String is the name that package fabric gives it, or "other".
func (t Transport) String() string { return transports.Transport(t).String() }

// TransportNamed is the transport with this name in package fabric.
func TransportNamed(name string) Transport { return Transport(transports.Named(name)) }

// Protocol is how a message travels over its transport.
type Protocol uint8

// The protocols: at once in one message; at once in several; announced and read by the receiver, or written by the sender where
// the receive was announced; announced and copied by both sides; announced and sent in pieces.
const (
	Eager Protocol = iota
	Parts
	Read
	Shared
	Copied
	Protocols // how many there are
)

// String is "eager", "parts", "read", "shared" or "copied".
func (p Protocol) String() string {
	if p < Protocols {
		return [Protocols]string{"eager", "parts", "read", "shared", "copied"}[p]
	}
	return fmt.Sprintf("Protocol(%d)", uint8(p))
}
