// Package rtr counts the messages of contexts in which receives announce their buffers with RTR
// (ready to receive). So a sender knows which of its messages is matched with an RTR.
//
// The sender must be sure that its next message with a tag is matched with that receive. It is sure
// under two conditions. It has received the RTRs of all receives with the same tag that were posted
// before, which the receiver counts in the RTR. And no message was in transit that the receiver had
// not received when it sent the RTR, so both sides count the messages of such a context. Otherwise
// the sender ignores the RTR, and the receive gets a message like any other.
//
// Messages carry the epoch in which they are counted. The receiver sends no RTR before the first
// message of an epoch has arrived: by then every message sent before the count began has arrived as
// well.
//
// The number of RTRs is limited at both ends. A sender stores at most maxTargets of a receiver in a
// context. A receiver sends none for a receive if maxAheadOfTag or more receives with the same tag were
// posted before, since the sender would ignore it.
//
// The package sends nothing. The caller holds the lock of the engine.
package rtr
