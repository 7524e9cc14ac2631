// Package libibverbs reaches devices through the installed libibverbs: every adapter for which it has a driver, including rxe. It
// loads the library at run time, when a device is first opened. No C compiler is needed:
//
//	p := libibverbs.New()
//	ctx, err := p.Open(ib.Device{Name: "mlx5_0"})
//
// It needs Linux on amd64 or arm64, and rdma-core 12 or newer. If the library is not installed, or lacks the driver of the
// device, Open returns a [MissingError] that names the packages. The build tag static leaves all of this out, so that a program
// links statically. Open then returns an error that says so.
//
// What libraries of rdma-core 12 lack is replaced or refused: before 32, package verbs reads the GID table from sysfs; before 28,
// optional access flags are dropped, and peers cannot use other addresses than local ones; dma-bufs need 34. The error for what
// is refused names the function and the version.
//
// # Calls
//
// The library's functions are found by name and called on the thread of the calling goroutine, which keeps the thread until it
// has read errno. The functions of the data path are not exported symbols: their addresses are in struct ibv_context, and calls
// of them allocate nothing. Post stores requests in memory that C can read, and Ring submits them as one list. A request that
// Ring follows at once is submitted by Post, and C reads its inline data without another copy. RecvList posts up to 16 receives
// by one call. A poll writes directly to the caller's completions.
//
// Functions of the data path run on a stack of 256 KiB for C, with 1 MiB below it that cannot be accessed. So a driver that needs
// much stack cannot write to memory of Go: it ends the process with SIGSEGV. There is one stack for each processor (P) of the
// runtime, and none for a queue, because calls keep their processor: the memory does not grow with the number of connections.
// Such a call costs 3.6 ns more than one on the goroutine's stack, 4 ns less than one on the stack of the thread without notice
// to the runtime, and 70 ns less than one with notice, measured with an empty function.
//
// Extended posting (ibv_wr_start and so on) is not used, because it is not faster from Go. It takes four calls for an inline
// message, where ibv_post_send takes one for up to 16. Measured with functions in C that fill a queue in memory as drivers do,
// with a message of 24 bytes, the lowest of 12 runs: from C, ibv_post_send takes 17.7 ns and the four calls 15.3 ns. From Go they
// take 22.4 ns and 32.3 ns, or 23.1 ns if the goroutine is pinned to its processor once for all four. Between the calls the
// driver holds a spin lock, so the goroutine would have to be pinned.
//
// # Events
//
// No call blocks in C: descriptors are non-blocking, and a goroutine that waits for them waits in Go. But events must be read
// with ReadEvents of the context and of the channel, and not with read(2), because drivers count them. A completion queue of
// mlx5, irdma, efa, hns or erdma makes no further events if one of them was read without the library. ReadEvents returns the same
// bytes as read(2). It acknowledges each event to the library after reading the event's object, so that no Close waits for an
// event that was read.
//
// # Memory
//
// Objects of C are named by their addresses. Only those fields of their structs are read that precede the first mutex, because
// the size of a mutex differs between platforms. Work requests and their lists are on the Go heap, which does not move them. C
// reads them only during a call.
//
// ibv_fork_init is not called. It protects registered memory of a parent that forks a child with copies of its pages. Go starts
// processes with CLONE_VM and CLONE_VFORK: the child runs on the parent's own pages, nothing is copied, and the parent's thread
// waits until the child has executed another program.
package libibverbs
