package mpi

// Config changes how a process initialises. A nil Config and the zero value select the defaults. Not in MPI-5.0.
type Config struct {
	// Fatal aborts the whole job on the first error of any call, like MPI_ERRORS_ARE_FATAL, the default of C programs.
	Fatal bool
	// UnexpectedBytes limits the memory for unexpected messages, which arrived before their receives; 0 means 64 MiB. When
	// it is used up, senders wait.
	UnexpectedBytes int
	// PinnedBytes limits the memory that stays registered with RDMA devices while no message uses it; 0 means 1 GiB.
	PinnedBytes int
	// Thresholds select the protocol by message length.
	Thresholds Thresholds
}

// Thresholds are payloads in bytes up to which messages travel in one way and beyond which in another; docs/transports.md tells
// which ways there are, and `ibrun explain` what is in force. They must be the same at every process. A field that is 0
// leaves its length to the environment variable that is named with it, and then to the transport; one that makes no sense is an
// error of Init.
type Thresholds struct {
	// ShmStream is the longest message that goes through shared memory in parts, unannounced. IBRUN_SHM_STREAM.
	ShmStream int
	// TCPEager is the longest message that is sent over TCP as one. IBRUN_TCP_EAGER.
	TCPEager int
	// TCPPush is how much of a message goes over TCP along with its announcement, before it is asked for. IBRUN_TCP_PUSH.
	TCPPush int
	// RDMAEager is the longest message that is sent over RDMA as one. IBRUN_RDMA_EAGER.
	RDMAEager int
	// RDMAStream is the longest message that goes over RDMA in parts, unannounced. IBRUN_RDMA_STREAM.
	RDMAStream int
	// RDMAInline is the longest message, its headers included, that the device takes within a request. IBRUN_RDMA_INLINE.
	RDMAInline int
	// RDMAPiece is the longest single RDMA READ. IBRUN_RDMA_PIECE.
	RDMAPiece int
}
