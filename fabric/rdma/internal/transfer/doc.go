// Package transfer has the parts of Reads and Writes that need no connection: the registered memory
// of the caller with its keys, the transfers of a peer in their order, and how many bytes of them
// are in flight. It says which lanes may carry the next piece of a transfer. Package posting posts
// the pieces, and says which have completed.
//
// # Files
//
//	op.go       a transfer, which lanes its next piece may take, and the list of those of a peer: their
//	            ends, and restarts after a connection has broken
//	pacer.go    the window of bytes in flight on a queue pair, without input or output
//	regions.go  registered memory
//	keys.go     the keys by which peers name memory, and the rows in which those of several rails are
//
// # Locks
//
// [Pool], [List], [Op], [Pacer] and [KeyReads] are guarded by the lock of the domain,
// posting.Poster.Mu, which callers hold: Reads and Writes begin in any goroutine. [Regions] has a
// lock of its own, since memory is registered in any goroutine, and the calls of a device may take
// long. It may be taken while the lock of the domain is held, and calls nothing of the domain but
// the function that registers memory.
package transfer
