// Package verbs transfers data with RDMA devices: InfiniBand, RoCE and the kernel's Soft-RoCE. It is libibverbs for Go,
// without cgo: it drives Soft-RoCE devices through the kernel's own interface and needs no library for them. For every other
// device it loads the installed libibverbs at run time.
//
// A program opens a device, registers memory and creates a queue pair. It sends the pair's address to the peer over any channel,
// connects to the peer's address, and from then on posts requests and polls completions:
//
//	dev, err := verbs.Open("", verbs.Options{}) // the first device with an active port
//	defer dev.Close()                           // closes everything below as well
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
//	qp.Send(2, verbs.Signaled, mr.SGE(0, 5)) // the memory belongs to the device until request 2 completes
//	qp.Ring()                                // now the device sends it
//	wc := make([]verbs.WC, 16)
//	for done := 0; done < 2; {
//		n, err := cq.Poll(wc)
//		for i := range wc[:n] {
//			err = wc[i].Err() // contains the numbers of queue pair and request
//		}
//		done += n
//	}
//
// # Requests
//
// Requests that are posted wait in the queue until [QP.Ring], or a post with the flag [RingDoorbell], rings the doorbell. One
// doorbell serves many requests. Receives need none. Each request completes exactly once; those of a send queue only if they are
// [Signaled] or fail. There are two exceptions, which the program can detect. After an overrun of the completion queue, and after
// the loss of the device, [CQ.Poll] returns [ErrOverrun] or [ErrDeviceLost], and missing completions never arrive. Requests
// that [Error.Dropped] counts do not complete either. Posting and polling allocate nothing. Instead of polling, a goroutine can
// call [CQ.Wait], which parks it in the runtime's poller.
//
// # Memory
//
// A region keeps its slice alive, and Go does not move objects of the heap. But neither the race detector nor the garbage
// collector knows that a device writes: do not touch the memory of a receive or a READ until its completion was polled.
//
// # Errors
//
// A failed call returns an [*Error], a failed request has a [*CompletionError]. [errors.Is] finds kinds such as [ErrFull],
// statuses such as [StatusRemoteAccess], and the [syscall.Errno] if there was one. Closing is idempotent. It returns [ErrBusy]
// while another open object needs the object. [Context.Close] closes everything in the right order. A Wait returns when the
// object that it waits for is closed, or the device is lost.
//
// All methods may be called by any goroutine at any time. A queue has a lock, which is held while a request is written, but not
// during a system call of the rxe provider.
package verbs
