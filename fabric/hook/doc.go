// Package hook wraps a transport and does to its user what rare timing and bad networks would do. What the rules of
// package fabric allow, such as refusing a Send, holding a message back, or telling the end of a Read by an event,
// its user must bear unharmed; what they do not allow, such as losing a message with its peer, its user must answer
// with an error.
//
//	tr := hook.Wrap(hub.Transport(), hook.Options{
//		Log:    t.Logf, // prints the seed
//		Again:  0.1,    // one Send in ten is refused
//		Delay:  0.2,    // one event in five is held back
//		Poison: true,   // lent bytes are overwritten when the loan ends
//	})
//
// Everything follows from the seed and from the sequence of calls of each domain, so a run of one goroutine can be
// repeated exactly. A domain with the zero Options only counts. Nothing outside this package knows of it: a program
// that does not wrap its transport pays nothing.
package hook
