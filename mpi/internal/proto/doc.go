// Package proto carries messages between processes: it chooses the protocol of each message (protocol_selection.go), matches
// messages with receives, and waits for completion.
//
// An [Engine] uses one fabric domain. Short messages are eager: the sender copies them into the transport immediately, the
// receiver matches them when they arrive and copies them out. Somewhat longer ones are sent in several fragments, of which the
// receiver copies one while the sender writes the next. For long messages the sender sends an RTS. When the receiver has matched
// it, the receiver reads the payload from the sender's memory and acknowledges with FIN:
//
//	eager       EAGER(envelope, payload) ->
//	fragments   FIRST_FRAG(envelope, size, payload) FRAG(payload) ... ->
//	synchronous EAGER_SYNC(envelope, id, payload) ->    <- FIN(id)      when matched
//	read        RTS(envelope, size, key, id) ->         [reads]         <- FIN(id)
//	shared      RTS(..., word) -> <- ASSIST(id, key)    [reads from the front | sender writes from the back]
//	                             ATP(id) ->             <- FIN(id)
//	copy        RTS -> <- DATA_REQUEST(id, id)  DATA(id, offset, payload) -> ... and no FIN
//	put         <- RTR(id, key)  PUT(id, id) -> [writes] ATP(id) ->     the receiver has sent its buffer's address
//	withdrawn   RTS(envelope, ...)  WITHDRAW(id) ->     <- WITHDRAWN(id) if it has not been matched; also for EAGER_SYNC
//
// Over shared memory the sender chooses the protocol of longer messages by the times that earlier ones took (measure.go). The
// receiver measures some of them and reports the time:
//
//	measured    FIRST_FRAG or RTS with marks -> ... <- ELAPSED(size, protocol, time)
//
// The shared protocol is for transports whose reads occupy the reading processor: sender and receiver claim pieces of the
// message in a word of shared memory, and both copy, which halves the time. It is not slower if the sender is busy elsewhere. The
// copy protocol is used where reads are not possible.
//
// A receiver stores unexpected messages up to a bound. Near the bound it pauses its senders (PAUSE): they send only RTS, whatever
// the size of the message, until there is room again (RESUME). An RTS is always accepted, so no sender ever waits until another
// sender's message is received.
//
// Concurrency: any number of goroutines may call an engine. One mutex protects it; it is not held across a system call that
// moves a block, yields or sleeps. One of the waiting goroutines polls, and makes progress for all. When nothing happens for a
// while, it sleeps on the transport's descriptor. Each of the others sleeps on a channel of its own, until its own goal may
// have been reached.
package proto
