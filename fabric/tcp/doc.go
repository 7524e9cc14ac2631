// Package tcp joins peers over TCP: machines without RDMA, containers, and anything that has an address.
//
//	t := &tcp.Transport{Key: secret}
//	d, err := t.Open(ctx, &fabric.Config{Self: 0, Size: 2})
//	ep, err := d.Connect(1, addrOfPeer1)
//
// There is one connection per pair of peers, made on first use by whoever needs it. If both call at once, the call of the
// lower number wins. Sockets are non-blocking and called directly; the runtime's poller has no part in it.
//
//	address     where peers listen, and which network interfaces that may be
//	greet       who calls and who is called prove to each other that they belong to the job
//	frame       what travels: messages, requests to read memory, memory, and the goodbye
//	endpoint    sending: at once if the kernel takes it, else from a bounded buffer
//	receive     receiving: large reads into a buffer of which messages are lent
//	transfer    Read: the peer streams its memory, the kernel copies it to where it belongs
//	push        memory that goes ahead of the Read which is expected for it
//	domain      polling: the connections that were busy lately by recv, all others by epoll
//	progress    what goes on while the program computes; deadlines
//	socket      the system calls
//
// # Copies
//
// A message is copied once by the kernel on each side, and once by whoever takes it out of the loan. What the kernel does not
// take at once is copied into the connection's buffer, which is one message at least, and refused beyond. A Read is copied by
// the kernel alone: the peer's answer goes by sendmsg from its registered memory, and by readv into the caller's. So is memory
// that is pushed, but for what came together with the message before it; if nobody reads it, it is received in vain. One stream
// carries it all: on a loopback device, where the kernel's copy is the limit, several are not faster, and between machines one
// stream fills what two cores can copy.
//
// # Memory
//
// A peer that is not connected costs a pointer. A connected one costs an endpoint of some hundred bytes here, and its socket in
// the kernel. Buffers are the domain's, and a connection has one while it holds part of a message, or one that nobody has taken.
// What the kernel holds of a connection that nobody reads is bounded, at 1 MiB here and 2 MiB at the receiver; there it is what
// net.ipv4.tcp_rmem allows if the program has read so fast before that the kernel has widened the window.
//
// # Progress
//
// Read needs the peer's process, though not its program: where that computes and does not poll, a timer answers calls, serves
// Reads and sends what waits, every millisecond, or every 16 when there was nothing to do. It rests while the program sleeps.
// It cannot go beyond messages that fill the buffer and have not been taken.
//
// # Strangers
//
// Both sides prove that they know Transport.Key, by HMAC-SHA-256 over both peers' numbers, the size of the set, the version and
// two fresh nonces, before anything else is read. Whoever connects without it is sent nothing; it holds a descriptor and less
// than 500 bytes for five seconds at most, and there are at most 128 of its kind. What follows the greeting is neither encrypted
// nor authenticated: the network itself is trusted not to change packets, as it is by RDMA.
//
// # Loss
//
// A peer that closes says so. One that is killed is told by its kernel. One whose kernel has acknowledged nothing for
// Transport.Timeout, while there was something to acknowledge, is lost; if nothing is under way, keepalive probes find out. A
// peer that is merely stopped, or computes, is not lost, since its kernel answers. TCP_USER_TIMEOUT would take it for lost
// once its window is full.
package tcp
