// Package match matches messages with receives in the order that MPI prescribes: a message is matched with the first posted
// receive that fits, and a receive with the first unexpected message that fits. A receive may have a wildcard as source, tag or
// both.
//
// A [Table] belongs to one context, that is, to the traffic of one kind in one communicator. Its elements are structs of the
// caller, which contain a [Receive] or a [Message]:
//
//	var t match.Table[request, unexpected]
//	t.Post(&req.receive, source, tag)           // no message fitted: the receive is posted
//	r := t.TakePosted(source, tag)              // removes and returns the receive for a message; nil: none
//	t.AddUnexpected(&m.message, source, tag)    // no receive fitted: the message is stored
//	m := t.FindUnexpected(source, tag)          // returns the message for a receive, and leaves it in the table; nil: none
//	t.RemoveUnexpected(m)                       // removes it
//
// Every operation takes at most the time of a few hash look-ups, however many elements the table has. A receive is in one of
// four classes, depending on its wildcards. A class is a set of queues by key. An arriving message reads the head of at most one
// queue of each class and takes the oldest. A receive that is the only one and has no wildcard is stored outside the queues. A
// message is in one queue of each class at the same time.
//
// Wildcards that no receive uses can be forbidden: then messages are in fewer classes, down to one, and cost less. The step from
// class to class is the same, so a table without restrictions pays nothing for this.
//
// Only one goroutine may use a table at a time.
package match
