// Package messages has the parts of messages that need no connection: their header, the accounts by
// which two processes limit how many are in flight, the bounce buffers that hold them, and those
// from a process to itself.
//
// A receiver reserves a slot for each data message that a peer may send, and one more for a control
// message, before it grants the credit. Each message carries the grant in its header. So a receive
// is always posted when a message arrives. The accounts do no input or output.
//
// # Files
//
//	header.go    the header of a message
//	credits.go   what a peer may send, and what may be sent to it
//	slots.go     pools of bounce buffers
//	loopback.go  messages from this process to itself
//
// # Locks
//
// There are none. A value belongs to the goroutine that calls Poll of its domain. [Slots.Give] is
// also called by the handling of completions, with the lock of the domain held, in the same
// goroutine.
package messages
