// Package control joins the nodes of a job: node 0 listens, and each other node keeps one connection to it.
//
//	l, err := rendezvous.Listen("10.0.0.1:7777", secret)    // on node 0 of 3
//	c, err := l.Accept(ctx)                                 // c.Node() is 1 or 2
//
//	c, err := rendezvous.Dial(ctx, "10.0.0.1:7777", secret, 1, 3) // on node 1
//	err = c.Send(message)
//	message, err := c.Recv()
//
// Before anything else each side proves that it has the bytes of the same secret file. In order on the wire:
//
//	greeting, 48 bytes   "ibrun/n", version, node, nodes (4 bytes each), 32 random bytes
//	challenge, 72 bytes  "ibrun/n", version, 32 random bytes, HMAC-SHA256 of both so far and "node 0"
//	proof, 32 bytes      HMAC-SHA256 of both and "node"
//
// Then frames go both ways, each under an HMAC of its own with a key for the direction, made by HKDF from the secret and
// both random parts, and with a number that counts up. So nothing can be put into a connection, left out of it, or
// repeated. Nothing is encrypted: what travels is where ranks listen and how they end, and no secret.
//
// A stranger who finds the port gets no further than the challenge, holds one of a bounded number of places for a few
// seconds at most, and makes nobody wait.
//
// Both sides send a beat every 500 ms. A side that hears nothing for five of them takes the other for gone. Beats also
// compare the clocks, so that what happened on different nodes can be put in order ([Conn.Clock]).
package control
