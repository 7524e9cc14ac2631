// Package match pairs messages with receives, as MPI orders it: a message goes to the first receive posted that fits,
// and a receive takes the first message arrived that fits, where a receive may leave source, tag or both open.
//
// A [Table] belongs to one context, that is, to one communicator's traffic of one kind. What waits in it are a
// caller's own structs, each with a [Receive] or a [Message] inside:
//
//	var t match.Table[request, unexpected]
//	t.Post(&req.receive, source, tag)         // no message fitted: the receive waits
//	r := t.Arrive(source, tag)                 // the receive that a message goes to, taken out; nil: none
//	t.Keep(&m.message, source, tag)           // no receive fitted: the message waits
//	m := t.Find(source, tag)                   // the message that a receive takes, left in; nil: none
//	t.Take(m)                                  // out with it
//
// Every operation takes the time of a few hash look-ups at most, however many wait. Receives lie in one of four
// classes by what they leave open, each a set of queues by key; an arriving message looks at the head of at most
// one queue of each class and goes to the oldest. A receive that is the only one and leaves nothing open waits
// outside the queues. Messages lie in one queue of each class at the same time.
//
// What no receive ever leaves open can be closed: messages then lie in fewer classes, down to one, and cost accordingly
// less. The step from class to class is the same, so a table that is open pays nothing for the choice.
//
// A table is used by one goroutine at a time.
package match
