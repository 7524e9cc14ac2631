// Package posting posts the requests of a domain to the queue pairs of its connections: messages,
// pieces of Reads and Writes, reads of keys, and keepalives. It decides whether there is room,
// which queue pair gets the next piece of a transfer, which requests have a completion, and when
// the devices are notified. It records what is in flight, and says what a completion means for it.
//
// Long transfers are striped over the lanes of a connection in two steps. [transfer.Op.NextCarriers]
// says which lanes may carry the next piece: all, those of one rail, or none yet. Lanes.choose, in
// lanes.go, takes the one of these with the fewest requests in flight, among those with room.
//
// Package posting knows neither the handshake of connections nor endpoints. What follows from a completion or
// from a failure is up to the domain, which also creates, connects and closes the queue pairs.
//
// # Files
//
//	poster.go      what the queue pairs of a domain share; posts messages
//	pieces.go      posts the pieces of transfers, and reads the keys that they need
//	parts.go       memory in parts, for Reads with a scattered destination
//	lanes.go       the queue pairs of one connection, and the choice between them: striping
//	queue_pair.go  a queue pair with its requests in flight
//	closing.go     how a queue pair is flushed before it is closed
//	index.go       finds queue pairs by number
//	rail.go        how much may be in flight over a device
//	doorbells.go   when the devices are notified of requests
//
// # Locks
//
// [Poster.Mu] is the lock of the domain: Reads and Writes post in any goroutine. It guards the
// fields of [QueuePair], [Lanes] and [Rail] that change after a connection is made, the transfers
// with their pool, the reads of keys, the doorbells that are to be rung, and what the domain names
// as guarded by it. The caller must hold it, unless a comment says that the method takes it.
// While it is held, no other lock is taken, except by verbs, [transfer.Regions] and the caller's
// [fabric.Sink].
//
// Only the goroutine that calls Poll creates, connects and closes queue pairs, and changes their
// states and [Lanes.Queues]. So it may read these without the lock. [Poster.Sends] and the index of
// queue pairs belong to that goroutine.
package posting
