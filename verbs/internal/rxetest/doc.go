// Package rxetest stands in for the kernel below the rxe provider, so that the provider and what is above it can be tested
// on any machine: it answers commands, hands out rings and plays the driver's side of them.
//
//	k := rxetest.New()
//	ctx, err := verbs.OpenOn(rxe.On(k), k.Device())
//
// It moves no bytes. A doorbell completes every request of the send queue at once, a SEND also takes a receive of the queue
// pair that the sender is connected to. Failures are asked for with Fail, Hold, Event and Lose. Descriptors for events are
// pipes, so they are waited for as the kernel's are.
package rxetest
