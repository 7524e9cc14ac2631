// Package shm connects the peers of one node through memory they share.
//
// There is one segment per set of peers. It is sparse, with a control block per peer and room for a ring per directed pair. A
// ring takes memory when its writer connects, and more when it carries long messages; an idle peer costs one page. The first of
// the peers creates the segment and passes it to the others as a descriptor over sockets. Afterwards the sockets wake sleeping
// peers. They have no names, so no other user can send to them: a launcher hands them out ([Sockets]), or the peers do so
// themselves (package wakesock). A peer obtains the socket to another one when it first needs it, and does not wait for it.
//
//	control   one page per peer: whether it is open, asleep or closed; its process; which peers connected to it or closed
//	rings     for each pair (i, j) at a fixed offset: a ring that i writes and j reads (package internal/shm)
//
// Large blocks move in one copy: a peer's memory is read and written with process_vm_readv and process_vm_writev. Each peer
// allows its launcher to trace it, so that Yama also allows the launcher's other children. Where the kernel refuses nevertheless,
// Read and Write return ErrNotSupported and the caller sends the bytes instead.
//
// Sleeping works without a fence in Send. A peer that is about to sleep first sets its flag asleep, then makes every other
// process pass a memory barrier (membarrier), and then checks its rings once more. So either it sees the message, or the sender
// sees the flag and wakes it: no wake-up is lost. Where the kernel has no membarrier, the senders execute the fence.
//
// When a peer is killed, the kernel closes its socket, and the epoll set that all peers of the node share has an event. A
// goroutine waits for that, sets a bit and counts a change like those that peers record, so Poll needs no further check. What the
// peer had sent is delivered before the event PeerDown. The flag closed distinguishes a peer that has closed in order.
//
// What peers write into shared memory may be anything. A value is loaded once, checked, and then used. What no correct peer
// writes ends the connection to that peer. The length of a segment is sealed, so that no access can be a SIGBUS.
//
// The files:
//
//	transport    settings, limits, sizes of rings
//	open         joining the node: the sockets, the segment, the control block
//	layout       control blocks and offsets in the segment
//	domain       registration, connecting, closing
//	endpoint     sending; growing a ring; Read and Write
//	poll         receiving; connections and ends of peers; prefetch; when received bytes become invalid
//	wake         sleeping and waking: flags, fences, membarrier
//	segment      segments shared by some peers, whose pages are allocated when a peer asks for them
//	socket       receiving messages that wake this peer or carry a descriptor
//	senders      the sockets to the peers, which arrive when they are requested
//	ended        peers whose process has ended
//	process_vm   copies between processes
package shm
