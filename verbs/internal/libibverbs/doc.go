// Package libibverbs reaches devices through the libibverbs that is installed: every adapter for which it has a driver, rxe
// among them. The library is loaded at run time, when a device is first opened, and no C compiler has a part in it:
//
//	p := libibverbs.New()
//	ctx, err := p.Open(ib.Device{Name: "mlx5_0"})
//
// Where the library is not installed, or lacks the driver of the device, Open returns a [MissingError] that names the
// packages. The build tag static leaves all of this out, so that a program links statically; Open then says so.
//
// # Calls
//
// The library's functions are reached by name and called on the thread of the calling goroutine, which keeps it until errno is
// read. Those of the data path are no symbols: their addresses stand in struct ibv_context, and calls of them allocate nothing.
// Post gathers requests in memory that C can read and Ring hands them over as one list; a poll fills the caller's completions
// directly. These functions run on the goroutine's own stack, in which room is made for them, and cost what they cost in C.
//
// # Events
//
// No call blocks in C: descriptors are non-blocking, and whoever waits for them waits in Go. But events must be read with
// ReadEvents of the context and of the channel, and not with read(2): drivers count them. A completion queue of mlx5,
// irdma, efa, hns or erdma of which an event was taken behind the library's back never tells of another. ReadEvents gives the
// same bytes as read(2), and it acknowledges each event to the library once it knows what the event is about, so that no
// Close waits for an event that was read.
//
// # What the library keeps
//
// Objects of C are named by their addresses. Of their structures only what stands before the first mutex is looked at, because
// its size differs between platforms. Work requests and their lists lie on the Go heap, which does not move them; C looks at
// them during a call only.
//
// ibv_fork_init is not called. It protects registered memory of a parent that forks a child with copies of its pages. Go starts
// processes with CLONE_VM and CLONE_VFORK: the child runs on the parent's own pages, nothing is copied, and the parent's thread
// waits until the child has become another program.
package libibverbs
