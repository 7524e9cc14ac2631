// Package control connects the nodes of a job: node 0 listens, and every other node keeps one connection to it.
//
//	s, err := control.NewSecurity(secret, encrypted)
//	l, err := control.Listen("10.0.0.1:7777", s, heartbeat) // on node 0 of 3
//	c, err := l.Accept(ctx)                                 // c.Node() is 1 or 2
//
//	c, err := control.Dial(ctx, "10.0.0.1:7777", s, 1, 3) // on node 1
//	err = c.Send(message)
//	message, err := c.Recv()
//
// A connection begins with a handshake, in which each side proves that it has the same secret file:
//
//	request, 48 bytes    "ibrun/n", version, node, nodes (4 bytes each), 32 random bytes
//	challenge, 76 bytes  "ibrun/n", version, heartbeat (4 bytes), 32 random bytes; HMAC-SHA-256 of "node 0" and all bytes so far
//	proof, 32 bytes      HMAC-SHA-256 of "node" and the same bytes
//
// After it, both sides send frames. Each frame ends in a tag, an HMAC over the frame and its number, which counts up. Each
// direction has its own key, which HKDF derives from the secret and the bytes of the handshake. So an attacker can neither insert
// a frame into a connection, nor remove or repeat one. The messages say where ranks listen and how they ended, and contain no
// secret of this project.
//
// If the nodes demand encryption, all of this happens within TLS 1.3, which begins with the first byte (package encrypt). The
// magic is "ibrun/e" then, and the MACs also cover the channel binding of the TLS session, so that nobody can be between the
// sides. There is no negotiation: a side that demands encryption never speaks with one that does not. They only tell each other.
// A client without encryption is answered in the clear with "ibrun/e", and a client with TLS, if node 0 does not encrypt, with
// "ibrun/n"; that client connects once more, without TLS. In both cases both sides complete the handshake, which proves that they
// belong to the same job, and then report the mistake.
//
// An unauthenticated connection gets no further than the challenge. It is closed after a few seconds. The number of such
// connections is bounded, and they delay neither Accept nor each other.
//
// Both sides send a heartbeat every 500 ms. A side that receives nothing for the time that node 0 has sent reports the other as
// lost.
// Heartbeats also measure the offset between the clocks, so that events of different nodes can be ordered ([Conn.ClockOffset]).
package control
