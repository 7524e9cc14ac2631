package bench

import (
	"fmt"
	"time"
)

// Unit is what a figure is counted in.
type Unit string

// The units of results.
const (
	Microseconds      Unit = "us"
	Milliseconds      Unit = "ms"
	MegabytesPerSec   Unit = "MB/s" // 10^6 bytes
	MessagesPerSecond Unit = "msg/s"
	TripsPerSecond    Unit = "trips/s" // a message there and one back
)

// MoreIsBetter reports whether the unit is a rate and not a time.
func (u Unit) MoreIsBetter() bool {
	return u == MegabytesPerSec || u == MessagesPerSecond || u == TripsPerSecond
}

// Op is one measurement, described by its exported fields. Get one from [Ops] or [Lookup].
type Op struct {
	Name  string // the OSU name without prefix: latency, mbw_mr, allreduce
	Unit  Unit   // of the figures
	About string // what is measured, in one line

	kind         kind
	loop         func(r *runner, skip, n int) (time.Duration, error)
	writtenLoop  func(r *runner, skip, n int) (time.Duration, error) // with [Config.Written]; nil: there is none
	call         func(r *runner) error                               // of a collective
	send         blocks                                              // what the send buffer holds
	recv         blocks                                              // what the receive buffer holds
	sharedBuffer bool                                                // data arrives where it was sent from: bcast
	source       func(r *runner, block int) (origin, bool)
	summedRanks  func(r *runner) int // of a reduction: how many ranks, from 0, are summed at this rank; 0 where nothing arrives

	// Of a derived datatype; size counts the bytes of its data.
	newMessage    func(size int) (message, error)
	messageMemory func(size int) int // bytes of a buffer
	dataUnit      int                // sizes are multiples of it
}

// kind decides which rank's clock measures, and which sizes are valid.
type kind uint8

const (
	pair       kind = iota // exactly two ranks; the clock of rank 0
	pairs                  // an even number of ranks; the clocks of the first half, which sends
	collective             // bytes move; all clocks
	reduction              // float32 are summed; all clocks
	empty                  // no bytes at all; all clocks
)

// blocks says how many messages of the measured size a buffer holds.
type blocks uint8

const (
	single blocks = iota
	onePerRank
)

// ops is the table of operations, in the order they are listed and run. Names are those of the table in
// testdata/peer.c.
var ops = [...]Op{
	{Name: "latency", Unit: Microseconds, About: "half the round trip of one message between two ranks",
		kind: pair, loop: (*runner).pingPong, writtenLoop: (*runner).writtenPingPong, source: fromPartner},
	{Name: "bw", Unit: MegabytesPerSec, About: "bandwidth of windows of messages from one rank to another",
		kind: pair, loop: (*runner).streamWindows, writtenLoop: (*runner).writtenWindows, source: fromSender},
	{Name: "bibw", Unit: MegabytesPerSec, About: "bandwidth of windows of messages in both directions simultaneously",
		kind: pair, loop: (*runner).exchangeWindows, source: fromPartner},
	{Name: "mbw_mr", Unit: MessagesPerSecond, About: "message rate of many pairs of ranks",
		kind: pairs, loop: (*runner).streamWindows, source: fromSender},

	{Name: "vector", Unit: Microseconds, About: "latency of a column of a matrix of doubles",
		kind: pair, loop: (*runner).typedPingPong, newMessage: columnMessage, messageMemory: columnMemory, dataUnit: doubleBytes},
	{Name: "struct", Unit: Microseconds, About: "latency of an array of structs of mixed fields",
		kind: pair, loop: (*runner).typedPingPong, newMessage: structsMessage, messageMemory: structsMemory, dataUnit: mixedData},
	{Name: "subarray", Unit: Microseconds, About: "latency of a face of a three-dimensional array of doubles",
		kind: pair, loop: (*runner).typedPingPong, newMessage: faceMessage, messageMemory: faceMemory, dataUnit: doubleBytes},

	{Name: "barrier", Unit: Microseconds, About: "all ranks wait for each other",
		kind: empty, loop: (*runner).timeWholeLoop, call: (*runner).barrier},
	{Name: "bcast", Unit: Microseconds, About: "rank 0 sends the same bytes to all",
		kind: collective, loop: (*runner).timeEachCall, call: (*runner).bcast, sharedBuffer: true, source: fromRoot},
	{Name: "reduce", Unit: Microseconds, About: "float32 vectors are summed at rank 0",
		kind: reduction, loop: (*runner).timeEachCall, call: (*runner).reduce, summedRanks: allRanksAtRoot},
	{Name: "allreduce", Unit: Microseconds, About: "float32 vectors are summed at every rank",
		kind: reduction, loop: (*runner).timeEachCall, call: (*runner).allreduce, summedRanks: allRanks},
	{Name: "reduce_scatter", Unit: Microseconds, About: "float32 vectors are summed, each rank gets its part",
		kind: reduction, loop: (*runner).timeEachCall, call: (*runner).reduceScatter, summedRanks: allRanks},
	{Name: "scan", Unit: Microseconds, About: "float32 vectors are summed over the ranks up to each",
		kind: reduction, loop: (*runner).timeEachCall, call: (*runner).scan, summedRanks: ranksUpToSelf},
	{Name: "exscan", Unit: Microseconds, About: "float32 vectors are summed over the ranks before each",
		kind: reduction, loop: (*runner).timeEachCall, call: (*runner).exscan, summedRanks: ranksBeforeSelf},

	{Name: "gather", Unit: Microseconds, About: "rank 0 collects bytes of all",
		kind: collective, loop: (*runner).timeEachCall, call: (*runner).gather, recv: onePerRank, source: block0FromEachAtRoot},
	{Name: "scatter", Unit: Microseconds, About: "rank 0 hands each rank its own bytes",
		kind: collective, loop: (*runner).timeEachCall, call: (*runner).scatter, send: onePerRank, source: ownBlockFromRoot},
	{Name: "allgather", Unit: Microseconds, About: "every rank collects bytes of all",
		kind: collective, loop: (*runner).timeEachCall, call: (*runner).allgather, recv: onePerRank, source: block0FromEach},
	{Name: "alltoall", Unit: Microseconds, About: "every rank hands each rank its own bytes",
		kind: collective, loop: (*runner).timeEachCall, call: (*runner).alltoall, send: onePerRank, recv: onePerRank,
		source: ownBlockFromEach},
	{Name: "gatherv", Unit: Microseconds, About: "gather with counts and displacements",
		kind: collective, loop: (*runner).timeEachCall, call: (*runner).gatherv, recv: onePerRank, source: block0FromEachAtRoot},
	{Name: "scatterv", Unit: Microseconds, About: "scatter with counts and displacements",
		kind: collective, loop: (*runner).timeEachCall, call: (*runner).scatterv, send: onePerRank, source: ownBlockFromRoot},
	{Name: "allgatherv", Unit: Microseconds, About: "allgather with counts and displacements",
		kind: collective, loop: (*runner).timeEachCall, call: (*runner).allgatherv, recv: onePerRank, source: block0FromEach},
	{Name: "alltoallv", Unit: Microseconds, About: "alltoall with counts and displacements",
		kind: collective, loop: (*runner).timeEachCall, call: (*runner).alltoallv, send: onePerRank, recv: onePerRank,
		source: ownBlockFromEach},

	{Name: "ibarrier", Unit: Microseconds, About: "the immediate form of barrier, which is waited for at once",
		kind: empty, loop: (*runner).timeWholeLoop, call: waited(startBarrier)},
	{Name: "ibcast", Unit: Microseconds, About: "the immediate form of bcast, which is waited for at once",
		kind: collective, loop: (*runner).timeEachCall, call: waited(startBcast), sharedBuffer: true, source: fromRoot},
	{Name: "ireduce", Unit: Microseconds, About: "the immediate form of reduce, which is waited for at once",
		kind: reduction, loop: (*runner).timeEachCall, call: waited(startReduce), summedRanks: allRanksAtRoot},
	{Name: "iallreduce", Unit: Microseconds, About: "the immediate form of allreduce, which is waited for at once",
		kind: reduction, loop: (*runner).timeEachCall, call: waited(startAllreduce), summedRanks: allRanks},
	{Name: "ireduce_scatter", Unit: Microseconds, About: "the immediate form of reduce_scatter, which is waited for at once",
		kind: reduction, loop: (*runner).timeEachCall, call: waited(startReduceScatter), summedRanks: allRanks},
	{Name: "iscan", Unit: Microseconds, About: "the immediate form of scan, which is waited for at once",
		kind: reduction, loop: (*runner).timeEachCall, call: waited(startScan), summedRanks: ranksUpToSelf},
	{Name: "iexscan", Unit: Microseconds, About: "the immediate form of exscan, which is waited for at once",
		kind: reduction, loop: (*runner).timeEachCall, call: waited(startExscan), summedRanks: ranksBeforeSelf},
	{Name: "igather", Unit: Microseconds, About: "the immediate form of gather, which is waited for at once",
		kind: collective, loop: (*runner).timeEachCall, call: waited(startGather), recv: onePerRank, source: block0FromEachAtRoot},
	{Name: "iscatter", Unit: Microseconds, About: "the immediate form of scatter, which is waited for at once",
		kind: collective, loop: (*runner).timeEachCall, call: waited(startScatter), send: onePerRank, source: ownBlockFromRoot},
	{Name: "iallgather", Unit: Microseconds, About: "the immediate form of allgather, which is waited for at once",
		kind: collective, loop: (*runner).timeEachCall, call: waited(startAllgather), recv: onePerRank, source: block0FromEach},
	{Name: "ialltoall", Unit: Microseconds, About: "the immediate form of alltoall, which is waited for at once",
		kind: collective, loop: (*runner).timeEachCall, call: waited(startAlltoall), send: onePerRank, recv: onePerRank,
		source: ownBlockFromEach},
	{Name: "igatherv", Unit: Microseconds, About: "the immediate form of gatherv, which is waited for at once",
		kind: collective, loop: (*runner).timeEachCall, call: waited(startGatherv), recv: onePerRank, source: block0FromEachAtRoot},
	{Name: "iscatterv", Unit: Microseconds, About: "the immediate form of scatterv, which is waited for at once",
		kind: collective, loop: (*runner).timeEachCall, call: waited(startScatterv), send: onePerRank, source: ownBlockFromRoot},
	{Name: "iallgatherv", Unit: Microseconds, About: "the immediate form of allgatherv, which is waited for at once",
		kind: collective, loop: (*runner).timeEachCall, call: waited(startAllgatherv), recv: onePerRank, source: block0FromEach},
	{Name: "ialltoallv", Unit: Microseconds, About: "the immediate form of alltoallv, which is waited for at once",
		kind: collective, loop: (*runner).timeEachCall, call: waited(startAlltoallv), send: onePerRank, recv: onePerRank,
		source: ownBlockFromEach},
	{Name: "overlap", Unit: Microseconds,
		About: "the wait for an iallreduce after a sleep of the time that an allreduce takes",
		kind:  reduction, loop: (*runner).overlap, call: waited(startAllreduce), summedRanks: allRanks},
	{Name: "overlap_compute", Unit: Microseconds,
		About: "an iallreduce with a computation of the time that an allreduce takes, before its wait",
		kind:  reduction, loop: (*runner).overlapCompute, call: waited(startAllreduce), summedRanks: allRanks},
}

// Ops returns all operations, point-to-point first.
func Ops() []Op { return append([]Op(nil), ops[:]...) }

// Lookup finds an operation by its name.
func Lookup(name string) (Op, error) {
	for _, op := range ops {
		if op.Name == name {
			return op, nil
		}
	}
	return Op{}, fmt.Errorf("bench: no operation is called %q", name)
}

// Collective reports whether the operation is collective and not point-to-point.
func (op Op) Collective() bool { return op.kind >= collective }

// Derived reports whether messages have a derived datatype.
func (op Op) Derived() bool { return op.newMessage != nil }

// CheckRanks returns an error when the operation cannot run among n ranks.
func (op Op) CheckRanks(n int) error {
	switch {
	case op.kind == pair && n != 2:
		return fmt.Errorf("bench: %s is measured between 2 ranks, not %d", op.Name, n)
	case op.kind == pairs && (n < 2 || n%2 != 0):
		return fmt.Errorf("bench: %s is measured between pairs: it wants an even number of ranks, not %d", op.Name, n)
	case n < 2:
		return fmt.Errorf("bench: %s wants at least 2 ranks, not %d", op.Name, n)
	}
	return nil
}

// Sizes is the operation's ladder, in bytes: that of OSU, up to 4 MiB point-to-point and 1 MiB for collectives.
func (op Op) Sizes() []int {
	switch {
	case op.kind == empty:
		return []int{0}
	case op.Name == "latency":
		return Ladder(0, 4<<20)
	case op.Derived():
		return Ladder(64, 4<<20)
	case op.kind == reduction:
		return Ladder(floatBytes, 1<<20)
	case op.kind == collective:
		return Ladder(1, 1<<20)
	}
	return Ladder(1, 4<<20)
}

// Takes reports whether the operation has a point of that many bytes: barrier has only 0, reductions whole float32, and
// only latency is interesting for messages of no bytes.
func (op Op) Takes(size int) bool {
	switch {
	case op.kind == empty:
		return size == 0
	case op.Name == "latency":
		return size >= 0
	case op.Derived():
		return size > 0 && size%op.dataUnit == 0
	case op.kind == reduction:
		return size > 0 && size%floatBytes == 0
	}
	return size > 0
}

// sizeRule says in words what Takes decides.
func (op Op) sizeRule() string {
	switch {
	case op.kind == empty:
		return "its only size is 0"
	case op.kind == reduction:
		return "it sums whole float32 of 4 bytes"
	case op.Name == "latency":
		return "sizes are not negative"
	case op.Derived():
		return fmt.Sprintf("its data is in units of %d bytes", op.dataUnit)
	}
	return "sizes begin at 1"
}

// memory is the number of bytes of both buffers of one rank.
func (op Op) memory(size, ranks int) int {
	if op.Derived() {
		return 2 * op.messageMemory(size)
	}
	n := 2
	if op.send == onePerRank {
		n += ranks - 1
	}
	if op.recv == onePerRank {
		n += ranks - 1
	}
	return n * size
}
