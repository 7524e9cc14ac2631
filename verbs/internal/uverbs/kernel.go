package uverbs

// Kernel is the operating system as a context uses it. [Open] uses the real one. [OpenWith] takes any, for tests that simulate a
// device. Any goroutine may call any method. Errors are errnos, as the system calls return them.
type Kernel interface {
	// Open opens a device file and returns its descriptor, closed on exec, and its device number.
	Open(path string) (fd int, rdev uint64, err error)
	// Write writes a command. The kernel writes the response to resp, whose address is in the command. A simulation copies it there.
	Write(fd int, command, resp []byte) error
	// Post is Write for POST_SEND and REQ_NOTIFY_CQ, which are short and frequent. The same command may run many times concurrently.
	Post(fd int, command, resp []byte) error
	// Ioctl makes an RDMA_VERBS_IOCTL. All outputs are in resp, one after the other, and their addresses are in the request.
	Ioctl(fd int, request, resp []byte) error
	// Mmap maps n bytes of the device file, shared and writable.
	Mmap(fd int, offset int64, n int) ([]byte, error)
	// Munmap unmaps a mapping. mem must be the slice that Mmap returned.
	Munmap(mem []byte) error
	// Discard releases the memory of the mapping immediately. The addresses read as zero until Munmap.
	Discard(mem []byte) error
	// SetNonblock makes a descriptor that a command returned non-blocking.
	SetNonblock(fd int) error
	// Close closes a descriptor.
	Close(fd int) error
}
