// Package control connects the nodes of a job: node 0 listens, and every other node keeps one connection to it.
//
//	l, err := control.Listen("10.0.0.1:7777", secret)    // on node 0 of 3
//	c, err := l.Accept(ctx)                              // c.Node() is 1 or 2
//
//	c, err := control.Dial(ctx, "10.0.0.1:7777", secret, 1, 3) // on node 1
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
// a frame into a connection, nor remove or repeat one. Nothing is encrypted: the messages say where ranks listen and how they
// ended, and contain no secret.
//
// An unauthenticated connection gets no further than the challenge. It is closed after a few seconds. The number of such
// connections is bounded, and they delay neither Accept nor each other.
//
// Both sides send a heartbeat every 500 ms. A side that receives nothing for the time that node 0 has sent reports the other as
// lost.
// Heartbeats also measure the offset between the clocks, so that events of different nodes can be ordered ([Conn.ClockOffset]).
package control
