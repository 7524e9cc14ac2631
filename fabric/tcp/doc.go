// Package tcp connects peers over TCP: machines without RDMA, containers, and anything that has an IP address.
//
//	t := &tcp.Transport{Key: secret}
//	d, err := t.Open(ctx, &fabric.Config{Self: 0, Size: 2})
//	ep, err := d.Connect(1, addrOfPeer1)
//
// There is one connection per pair of peers, made on first use by the peer that needs it. If both connect at the same time,
// the connection of the lower number wins. Sockets are non-blocking and called directly; the runtime's poller is not involved.
//
//	address      where peers listen, and which network interfaces they use
//	listen       accepting connections; limits on unauthenticated ones
//	dial         connecting, with backoff and deadlines
//	handshake*   the messages by which client and server authenticate each other, and the states of both sides
//	frame        the wire format: messages, requests to read memory, memory, and the orderly shutdown
//	domain       the state that all connections share
//	endpoint     the state of one connection
//	conn_state   what is known of a peer while a connection to it is made, and whether what is sent arrives
//	input        received bytes, and when they become invalid; buffers
//	output       what the kernel has not taken yet
//	framing      the headers of the frames that are sent
//	send         sending: directly if the kernel takes it, otherwise from a bounded buffer
//	send_source  sending data in parts: from the buffer into which they are packed
//	receive      receiving and parsing frames
//	retained     messages that the peer has not received yet
//	resume       making a broken connection again
//	reading      what is received into memory: Reads, and pushed memory
//	read         Read: memory is received to its destination without another copy
//	read_server  the other side of Read: the peer streams its memory
//	push         memory that is sent along with the message that announces it
//	region       memory that peers may read
//	poll         Poll and Arm: returning events
//	active       busy polling of the connections that were active recently
//	epoll        all other connections
//	progress     sending and receiving while the program computes
//	timer        deadlines, and connections that do not respond, or over which nothing arrives
//	close        orderly shutdown, and the loss of a peer
//	stream       the byte stream of a connection
//	tls*         the same over TLS, and its handshake
//	socket       the system calls
//	sockopt      options of sockets
//
// # Copies
//
// A message is copied once by the kernel on each side, and once by the program that keeps it beyond the next Poll. Another
// copy is kept until the peer's process has received the message; it is made after the system call, while the peer already has
// work to do. Data in parts is packed into that copy first, and sent from there. Bytes that the kernel does not take
// immediately are sent from that copy. At most 4 MiB are kept for a peer, of
// which 320 KiB may be unsent; beyond that Send returns ErrAgain. A Read is copied by the kernel alone: the peer sends it by
// sendmsg from its registered memory, and readv puts it into the caller's. The same holds for memory that is pushed, except
// for the part that arrives together with the message before it. If a push is not read, it is received in vain. One stream
// carries everything. On a loopback device, where the kernel's copy is the limit, several streams are not faster, and between
// machines one stream fills what two cores can copy.
//
// Messages of SendLater are kept as unsent until the next Send, SendFrom, Push, Read, Flush or Poll, and then sent from the copy
// in one system call. The caller uses it for messages that are sent in a row, and for the next ones of goroutines that were woken
// together. If the program calls nothing more, the timer of "Progress" sends them after a millisecond or more.
//
// # Memory
//
// A peer that is not connected costs a pointer. A connected one costs an endpoint of some hundred bytes here, and its socket
// in the kernel. Buffers belong to the domain; a connection has one while it holds part of a message, or a message that has
// not been released. The kernel's memory for a connection that nothing reads from is bounded, at 1 MiB here and 2 MiB at the
// receiver. There it is what net.ipv4.tcp_rmem allows if the program read so fast before that the kernel has widened the
// window.
//
// # Progress
//
// A Read needs the peer's process, but not its program. If that computes and does not poll, a timer accepts connections,
// serves Reads and sends what is unsent, every millisecond, or every 16 when there was nothing to do. It is stopped while the
// program sleeps. It cannot receive beyond messages that fill the buffer and have not been taken.
//
// # Broken connections
//
// A connection that breaks while both processes live is made again: after a reset, or if a host between the two has forgotten
// it. Each side that notices connects. If both do, the lower number wins. A connection that the other side still believes in
// is replaced. The handshake names the session and exchanges how many bytes of messages each side has received, so that the
// other sends the rest again; its MACs cover both. Receivers acknowledge messages by the headers of all frames, and by a frame
// of their own after 512 KiB, or a while after the last message. Reads need no copies: the reader requests what is missing. A
// push is not repeated, since a Read gets the same memory.
//
// The peer is lost when its host refuses a connection: then its process has ended. It is also lost if its host does not
// respond for Transport.Timeout, or accepts connections and its process does not answer for four times as long. If the host
// has rules that drop such packets instead of refusing them, the end of a process is only known after Transport.Timeout.
//
// That a connection is made again is not progress. Time counts from when the peer's kernel has acknowledged a byte, or there was
// none to acknowledge, over all connections since then (package tcpflow).
//
// The time in which this process was stopped, or did not poll, does not count: all deadlines are extended by it before anything
// asks whether one has passed.
//
// # Checksums
//
// Unless Transport.NoChecksum or Encrypt is set, the header of every frame between two machines has a CRC32C of itself and of
// its body. TCP's own checksum misses one of 65,536 changes, and network devices have changed packets and computed it anew. In
// one machine there is no such device, and checksums would cost up to a quarter of the bandwidth. A connection counts as one
// within a machine if both ends have the same address, and both see the same two ports. A proxy between the two peers has a
// connection to each of them, and only by a rare chance do these have the same ports. If a broken connection is replaced by one
// of the other kind, the headers of the kept messages are written again.
//
// A part of a Read counts as received when its checksum matches. If a checksum does not match, the connection is made again, and
// what was changed is sent again. After the eighth time without progress the peer is lost, with ErrCorrupt. The checksum of
// memory is computed before it is sent: then it is in a cache for the kernel's copy, and the header has it, which saves a system
// call.
//
// # Unauthenticated connections
//
// Both sides prove that they know Transport.Key, by HMAC-SHA-256 over both peers' numbers, the size of the set, the version
// and two fresh nonces, before anything else is read. A client that does not know the key is sent nothing. It occupies a
// descriptor and less than 800 bytes for five seconds at most, and there are at most 128 such connections. Without encryption
// frames are not authenticated: the network itself is trusted not to change packets, as it is by RDMA.
//
// # Encryption
//
// With Transport.Encrypt both sides begin with TLS 1.3 after the challenge. The proof and the verdict are sent over it, and
// their MACs also cover the channel binding of the TLS session (package internal/encrypt). Peers that differ in the setting
// learn that from hello and challenge, whose MACs cover it, and do not connect. Each new connection has a new session.
//
// TLS runs over the same non-blocking sockets. Its handshake has a goroutine that runs in turn with the one that polls.
// Afterwards, sending means to encrypt up to 192 KiB, and to keep the records that the kernel does not take; nothing more is
// encrypted before they are gone. TLS may hold decrypted bytes while the socket is not readable, so such connections are in a
// list that Poll and Arm look at. Memory is copied twice more on each side, there are allocations, and a connection that was
// used keeps about 50 KiB. A record that does not authenticate breaks the connection.
//
// # Loss of a peer
//
// A peer that closes sends an orderly shutdown, and waits up to Transport.Linger for its acknowledgement. If a peer is killed,
// its kernel closes the connection and refuses another one. A peer whose kernel refuses the first connection, at all addresses,
// has ended as well. A peer is lost if its kernel has acknowledged nothing for
// Transport.Timeout while there was something to acknowledge; on an idle connection keepalive probes, one a second, find that
// out. After a fifth of that time another connection is tried, since retransmissions become rare when many packets are lost. A
// peer that is merely stopped, or computes, is not lost, since its kernel answers. (TCP_USER_TIMEOUT would report it as lost
// when its window is full.)
//
// A peer is also lost if its kernel answers, and its process has answered the handshake of another connection, but no byte of
// what was sent is acknowledged over that one either. Then the network drops long packets, because of its MTU, and passes the
// short ones of the handshake. The end of the connection would wait behind them, so it is reset, and if the peer connects again
// it learns the reason. A connection that was made again for that reason is left alone for a while: the kernel may try shorter
// packets (net.ipv4.tcp_mtu_probing), and then bytes arrive.
//
// If long packets are lost in one direction only, the peer to which they are sent cannot know it: what it sends arrives. It is
// told in the hello or the challenge of another connection, because this process may have ended when the reset arrives. If a
// connection was made for another reason, its handshake did not say so. Then it is replaced once.
package tcp
