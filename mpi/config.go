package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Config changes how a process initialises. A nil Config and the zero value select the defaults. Not in MPI-5.0.
type Config struct {
	// Fatal aborts the whole job on the first error of any call, like MPI_ERRORS_ARE_FATAL, the default of C programs.
	Fatal bool
	// Check makes the library compare what the processes call, as ibrun --check does: collectives with different operations, roots,
	// lengths, types or orders, and messages whose elements have another type than those of the receive, are errors that name
	// both ranks and both source positions. All processes must have the same value. Calls take some microseconds longer.
	// docs/check.md describes it. IBRUN_CHECK=1 sets it too.
	Check bool
	// UnexpectedBytes limits the memory for unexpected messages, which arrived before their receives; 0 means 64 MiB. When
	// it is used up, senders wait.
	UnexpectedBytes int
	// PinnedBytes limits the memory that stays registered with RDMA devices while no message uses it; 0 means 1 GiB.
	PinnedBytes int
	// Thresholds select the protocol by message length.
	Thresholds Thresholds
}

// core returns the same as core takes it; the defaults for nil.
func (c *Config) core() *core.Config {
	if c == nil {
		c = &Config{}
	}
	return &core.Config{Fatal: c.Fatal, Check: c.Check, UnexpectedBytes: c.UnexpectedBytes, PinnedBytes: c.PinnedBytes,
		Thresholds: bootstrap.Thresholds(c.Thresholds), ClassOf: classOf}
}

// Thresholds are message lengths, in bytes of payload, that select the protocol, and the size of rings. docs/transports.md
// describes the protocols, and `ibrun explain` shows the values in force. All processes must use the same values. For a field
// that is 0, the environment variable named with it applies, or else the default of the transport. Init returns an error for an
// invalid value. Not in MPI-5.0.
type Thresholds struct {
	// ShmStream is the longest message that is sent eagerly through shared memory in fragments. If it is not set, measurements
	// decide. IBRUN_SHM_STREAM.
	ShmStream int
	// ShmRing is the size that the ring to a process of the same node has after many long messages: 128 KiB to 2 MiB, rounded down
	// to a power of two. IBRUN_SHM_RING.
	ShmRing int
	// TCPEager is the longest message that is sent over TCP as one eager message. IBRUN_TCP_EAGER.
	TCPEager int
	// TCPPush is how much of a message directly follows the RTS over TCP, before the receiver requests it.
	// IBRUN_TCP_PUSH.
	TCPPush int
	// RDMAEager is the longest message that is sent over RDMA as one eager message. IBRUN_RDMA_EAGER.
	RDMAEager int
	// RDMAStream is the longest message that is sent eagerly over RDMA in fragments. IBRUN_RDMA_STREAM.
	RDMAStream int
	// RDMAInline is the longest message, including its headers, that is sent inline in a request to the device.
	// IBRUN_RDMA_INLINE.
	RDMAInline int
	// RDMAPiece is the longest single RDMA READ. IBRUN_RDMA_PIECE.
	RDMAPiece int
}
