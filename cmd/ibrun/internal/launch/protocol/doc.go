// Package protocol defines the messages between ibrun and its agent, and between the coordinator
// and the other nodes of a job.
//
// An [Order] travels from ibrun to its agent, and from the coordinator to another node. An [Event]
// travels in the opposite direction. The first order to an agent carries the [Task]: the ranks that
// it starts. Every message is one JSON value. On the control socket of an agent one value follows
// the other; between nodes each is one message of package control.
//
// The names of JSON fields and of event kinds are the wire format: all nodes of a job must agree on them.
package protocol
