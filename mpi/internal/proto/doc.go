// Package proto carries messages between processes: it decides how a message travels, matches it, and waits.
//
// An [Engine] stands on one fabric domain. Small messages go eagerly: copied into the transport at once, matched
// when they arrive, copied out; somewhat longer ones in several parts, of which the receiver copies one while the
// sender writes the next. Large ones are announced; the receiver, once matched, reads them from the sender's
// memory and says so:
//
//	eager    EAGER(envelope, payload) ->
//	parts    LONG(envelope, size, payload) MORE(payload) ... ->
//	sync     SYNC(envelope, id, payload) ->          <- FIN(id)      when matched
//	read     OFFER(envelope, size, key, id) ->       [reads]         <- FIN(id)
//	shared   OFFER(..., word) -> <- HELP(id, key)    [reads from the front | sender writes from the back]
//	                          WROTE(id) ->           <- FIN(id)
//	copy     OFFER -> <- SEND(id, id)  DATA(id, offset, payload) -> ... and nothing more
//
// The shared form is for transports whose reads occupy the reading processor: sender and receiver claim pieces of the
// message in a word of memory that they share, and twice as much is copied in the same time. It loses nothing if the
// sender is busy elsewhere. The copy form serves where reads are not possible.
//
// A receiver keeps what arrives before its receive, up to a bound; beyond it, it tells its senders to offer only
// (CHOKE), whatever the size, until there is room (UNCHOKE). An offer is always taken in; so no sender ever waits
// for another sender's message to be received.
//
// Concurrency: any number of goroutines may call an engine. One mutex guards it; it is not held across a system
// call that moves a block, yields or sleeps. Whoever waits makes progress for all. When nothing happens for a while
// one of those who wait sleeps on the transport's descriptor and the others on a condition.
package proto
