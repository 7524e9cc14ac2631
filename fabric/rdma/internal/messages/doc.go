// Package messages has the parts of messages that need no connection: their header, the accounts
// that limit how many messages are in flight, the bounce buffers, the receive queues to which these
// are posted, the events for the caller of Poll, and messages from a process to itself. Only the
// slots for receives are posted here. The domain sends the messages.
//
// A receiver reserves a slot for each data message that a peer may send, and one more for a control
// message, before it grants the credit. Each message carries the grant in its header. So a receive
// is always posted when a message arrives. The accounts do no input or output.
//
// # Files
//
//	header.go    the header of a message
//	credits.go   what a peer may send, and what may be sent to it
//	peer.go      what is known of the messages with one peer
//	slots.go     pools of bounce buffers
//	receives.go  the bounce buffers for messages that arrive, and for which peers they are reserved
//	queue.go     receive queues of connections, for devices without shared ones
//	events.go    what the caller of Poll gets: directly, or through a queue
//	loopback.go  messages from this process to itself
//
// # Locks
//
// There are none. A value belongs to the goroutine that calls Poll of its domain. [Slots.Give] and
// [Events.Put] are also called by the handling of completions, with the lock of the domain held, in
// the same goroutine. [Receives.SendCredit] sends a control message, which takes that lock; so what
// calls it must not be called with the lock held.
package messages
