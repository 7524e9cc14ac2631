// Package verbs moves bytes over RDMA devices: InfiniBand, RoCE and the kernel's Soft-RoCE. It is libibverbs for Go,
// without cgo: a Soft-RoCE device is driven by the kernel's own interface and needs no library, every other device by the
// libibverbs that is installed, which is loaded at run time.
//
// A program opens a device, registers memory and makes a queue pair. It tells the peer the pair's address, in any way it likes,
// connects to the peer's, and from then on posts requests and polls completions:
//
//	dev, err := verbs.Open("", verbs.Options{}) // the first that works
//	defer dev.Close()                           // and everything below
//	pd, err := dev.AllocPD()
//	buf := make([]byte, 4096)
//	mr, err := pd.Register(buf, verbs.LocalWrite)
//	cq, err := dev.CreateCQ(16, nil)
//	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
//
//	qp.Recv(1, mr.SGE(2048, 2048)) // before the peer can send
//	mine, err := qp.Address()      // mine.MarshalBinary goes to the peer, peer.UnmarshalBinary comes from it
//	err = qp.Connect(peer)
//
//	qp.Send(2, verbs.Signaled, mr.SGE(0, 5)) // the bytes belong to the device until request 2 completes
//	qp.Ring()                                // it goes out now
//	wc := make([]verbs.WC, 16)
//	for done := 0; done < 2; {
//		n, err := cq.Poll(wc)
//		for i := range wc[:n] {
//			err = wc[i].Err() // names queue pair and request
//		}
//		done += n
//	}
//
// # Requests
//
// What is posted waits in the queue until [QP.Ring], or a post with the flag [RingDoorbell], tells the device, so that one call
// serves many requests; receives need none. Each request completes exactly once, those of a send queue only if they are
// [Signaled] or fail. There are exceptions, of which the program is told: after an overrun of the completion queue, and after
// the loss of the device, [CQ.Poll] says [ErrOverrun] or [ErrDeviceLost], and what is missing then does not come; nor does
// what [Error.Dropped] counts. Posting and polling allocate nothing. Instead of polling, a goroutine can [CQ.Wait]; it is
// parked in the runtime's poller.
//
// # Memory
//
// A registered slice is kept alive by its region, and Go does not move what is in the heap. What the garbage collector does
// not see is that a device writes: the bytes of a receive or a READ must be left alone until its completion was polled.
//
// # Errors
//
// A failed call is an [*Error], a failed request a [*CompletionError]; [errors.Is] finds kinds such as [ErrFull] and
// statuses such as [StatusRemoteAccess] in them, and the [syscall.Errno] where there was one. Closing is idempotent, and
// refused with [ErrBusy] while something else needs the object; [Context.Close] closes everything in the right order.
// Nobody stays stuck in a Wait: whatever is closed under it, or lost, it returns.
//
// All methods may be called by any goroutine at any time. A queue has a lock that is held while a request is written, and not
// during a system call of the rxe provider.
package verbs
