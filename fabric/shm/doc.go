// Package shm joins the peers of one node through memory they share.
//
// There is one segment per set of peers, sparse, with a control block per peer and room for a ring per directed pair.
// A ring takes memory when its writer connects, and more once it carries long messages; an idle peer costs one page. The
// segment is created by the first of the peers and passed to the others as a descriptor over datagram sockets, which
// afterwards serve to wake sleepers. The sockets have abstract names derived from the job's secret: nothing can stay behind
// in a file system.
//
//	control   one page per peer: open, asleep or closed; who it is; how often others connected to it, and who
//	rings     for each pair (i, j) at a fixed place: a ring that i writes and j reads (package internal/shm)
//
// Large blocks move in one copy: a peer's memory is read and written with process_vm_readv and process_vm_writev. Each
// peer names its launcher to the kernel as allowed to trace it, so that Yama lets the launcher's other children in;
// where the kernel refuses nevertheless, Read and Write answer ErrNotSupported and the caller sends the bytes instead.
//
// Sleeping works without a fence in Send. A sleeper says that it sleeps, makes every other process pass a memory
// barrier (membarrier), and looks once more; so either it sees the message or the sender sees it asleep. Where the
// kernel has no membarrier the senders pay for the fence.
package shm
