// Package rxetest simulates the kernel below the rxe provider, so that the provider and the packages above it can be tested
// on any machine. It executes commands, creates rings and does the driver's part of them.
//
//	k := rxetest.New()
//	ctx, err := opener.Open(rxe.On(k), k.Device())
//
// It transfers no data. A doorbell completes every request of the send queue immediately. A SEND also consumes a receive of
// the queue pair to which the sender is connected. Fail, HoldDoorbells, RaiseEvent and RemoveDevice simulate failures. The
// descriptors for events are pipes, so a program waits for them as for those of a real kernel.
package rxetest
