// Package hook wraps a transport, injects faults and counts calls. It provokes what rare timing and bad networks would cause.
// Some faults are within the rules of package fabric: a Send is refused, a message is delayed, a Read completes by an event.
// The user of the transport must work correctly in spite of them. Others are failures, such as the loss of a message and its
// peer: the user must report an error.
//
//	tr := hook.Wrap(hub.Transport(), hook.Options{
//		Log:    t.Logf, // prints the seed
//		Again:  0.1,    // one Send in ten is refused
//		Delay:  0.2,    // one event in five is held back
//		Poison: true,   // received bytes are overwritten at the next Poll
//	})
//
// All faults follow from the seed and from the sequence of calls of each domain, so a run of one goroutine can be
// repeated exactly. A domain with the zero Options only counts. A program that does not wrap its transport pays nothing.
package hook
