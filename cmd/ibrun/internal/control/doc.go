// Package control connects the nodes of a job. The ibrun of node 0 is the coordinator, and that of
// every other node has one connection to it.
//
// The coordinator listens, and the others connect to it:
//
//	s, err := control.NewSecurity(secret, encrypted)
//	l, err := control.Listen("10.0.0.1:7777", s, heartbeat) // at the coordinator of 3 nodes
//	c, err := l.Accept(ctx)                                 // c.Node() is 1 or 2
//
//	c, err := control.Dial(ctx, "10.0.0.1:7777", s, 1, 3) // on node 1
//	err = c.Send(message)
//	message, err := c.Recv()
//
// If the coordinator has started the other nodes, it may use the pipes to them instead of
// listening:
//
//	p, err := control.NewPipe(in, out, "here", "there")                // on both sides
//	c, err := control.ServePipe(ctx, p, s, 1, 3, heartbeat, nil)       // at the coordinator, for node 1 of 3
//	c, err := control.JoinPipe(ctx, p, s, 1, 3)                        // on node 1
//
// A [Conn] lives as long as both processes. It uses one TCP connection at a time, called a link, or one pair of pipes. Every link
// begins with a handshake, in which each side proves that it has the same secret:
//
//	request, 66 bytes    "ibrun/n", version, node, nodes (4 bytes each), port (2), session (16), 32 random bytes
//	challenge, 76 bytes  "ibrun/n", version, heartbeat (4 bytes), 32 random bytes; HMAC-SHA-256 of "node 0" and all bytes so far
//	proof, 32 bytes      HMAC-SHA-256 of "node" and the same bytes
//
// After it, both sides send frames. Each frame ends in a tag, an HMAC over the frame and its number, which counts up. Each
// direction has its own key, which HKDF derives from the secret and the bytes of the handshake. So an attacker can neither insert
// a frame into a link, nor remove or repeat one. The messages say where ranks listen and how they ended, and contain no
// secret of this project.
//
// If the nodes demand encryption, all of this happens within TLS 1.3, which begins with the first
// byte (package encrypt). The magic is "ibrun/e" then, and the MACs also cover the channel binding
// of the TLS session, so that no attacker can be between the sides. There is no negotiation: a side
// that demands encryption never speaks with one that does not. Both only report the difference. A
// client without encryption is answered in the clear with "ibrun/e", and a client with TLS, if the
// coordinator does not encrypt, with "ibrun/n"; that client connects once more, without TLS. In
// both cases both sides complete the handshake, which proves that they belong to the same job, and
// then report the mistake.
//
// # Broken links
//
// A link breaks if a device between the nodes resets or forgets it, or if a frame does not
// authenticate. The node then makes a new one, with the session of the Conn in its request. The
// coordinator accepts it only for a session that it knows, and from the node of that session. It
// drops the old link, which may still look sound there. The first frame of each side says how many
// messages it has received. A side keeps its messages until the other one has acknowledged them,
// and sends the rest again. Send keeps at most 16 MiB; beyond that it blocks. Post does not block.
// A side for which more than 1 GiB waits, and which receives nothing for the time of a heartbeat,
// is lost.
//
// If a process dies, the other side must know it immediately. A node whose link has broken finds
// that the port of the coordinator refuses connections. For the opposite direction every node
// listens on a port of its own, which its request names: see listenAlive. If the coordinator does
// not reach that port, it waits two seconds for a new link.
//
// Both sides send a heartbeat every 500 ms. A side that receives nothing for the time in the challenge reports the other as lost.
// After half of that time a node replaces its link, because the device that drops its bytes may only have forgotten the link.
// The time in which a process is stopped itself does not count. A whole machine that sleeps is silent for its peers.
//
// That a link was made is not a sign of life: a network may pass the short frames of a handshake and lose long ones, because of
// its MTU. A side whose bytes are not acknowledged over a second link either has lost the other (package tcpflow). So has a side
// that hears nothing over a second link. Either may find first that the other has ended the connection: see gone.
//
// Heartbeats also measure the offset between the clocks, so that events of different nodes can be ordered ([Conn.ClockOffset]).
//
// A pipe cannot be made again, so the node is lost when it breaks. Its end means immediately that the other process has died,
// or what connects it, for instance ssh. Handshake, frames and heartbeats are the same as over TCP.
//
// A side whose writes are not accepted for the time of a heartbeat has lost the other, too, unless that has announced that it is
// about to be stopped.
//
// # Strangers
//
// An unauthenticated connection gets no further than the challenge. It is closed after a few seconds. The number of such
// connections is bounded, for each source and together, and they delay neither Accept nor each other: see package admission.
package control
