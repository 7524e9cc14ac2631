// Package cost chooses the protocols of messages by the times that earlier ones took.
//
// Messages that are longer than an eager one can be sent by several protocols. Which one is the
// fastest depends on the processor, on its caches, on the distance of the two cores, and on where
// the data of the program is. So the sender measures the messages of the program, where the
// transport asks for it (fabric.Caps.MaxStream). Each protocol has a cost, and the one with the
// least cost is chosen.
//
// Messages overlap if several are on their way at once. The time that one of them takes then
// depends on the others. So the cost follows from the times in which the two sides copy:
//
//   - Fragments: the time of the slower side, because the sender copies into the transport while
//     the receiver copies out of it.
//   - Read: the time of the receiver, and what a lone read takes besides its copy.
//   - Shared: the time in which both sides together copy the message, and the same addition.
//
// A message is lone if the receiver has sent something after each of the last two long messages.
// This is known only while messages are recorded. Otherwise all messages count as overlapping. The
// cost of a lone message is the time that it takes:
//
//   - Fragments: the time of the sender for the first fragment, and of the receiver from there to
//     the end.
//   - Read, shared: the time of the sender from the RTS to the answer. It includes what else the
//     program does meanwhile, because a rendezvous needs the sender.
//
// The time of a lone message that was unexpected is not used.
//
// Lengths are divided into classes, two for each power of two. Each peer has two sets of classes:
// one for overlapping messages and one for lone ones. Each class has a choice of its own. The first
// 15 messages of a class try the protocols one after the other, beginning with that of
// Thresholds.Choose. In the long run at most one of a hundred messages tries another protocol, and
// the choice changes when that costs clearly less. A trial has several messages in a row, and the
// last ones are measured: a protocol reaches its speed only when it has moved the same buffers
// before.
//
// The first tries may be misleading, because a transport is slower while it touches memory for the
// first time, such as that of a ring that grows. So the first two trials of lone messages begin
// early, whatever these protocols have cost, and the third one begins later in return.
//
// The sender marks the messages that are to be measured, in the length of FirstFrag and RTS. When
// the receiver has the payload it reports its times in Elapsed. So the two sides need no common
// clock.
//
// The program sees only a different time: messages are matched in the order of their first headers,
// whatever their protocols.
//
// # Files
//
// peer.go has the classes of the messages to one peer, class.go the choice within a class, set.go
// sets of protocols, and elapsed.go what one side measures of a message.
//
// The package reads no clock and sends nothing. The caller holds the lock of the engine, except for
// an [Elapsed] of its own.
package cost
