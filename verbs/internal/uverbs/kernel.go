package uverbs

// Kernel is what a context asks of the operating system. [Open] uses the real one; [OpenWith] takes any, for tests and for
// playing back what a device said. Any goroutine may call any method. Errors are errnos, as the system calls return them.
type Kernel interface {
	// Open opens a device file and returns its descriptor, closed on exec, and its device number.
	Open(path string) (fd int, rdev uint64, err error)
	// Write writes a command. The kernel writes the answer to resp, whose address is in the command; a stand-in copies it there.
	Write(fd int, command, resp []byte) error
	// Post is Write for POST_SEND and REQ_NOTIFY_CQ, which are short and hot. The same command may be under way many times.
	Post(fd int, command, resp []byte) error
	// Ioctl makes an RDMA_VERBS_IOCTL. All outputs lie in resp, one after the other, and their addresses in the request.
	Ioctl(fd int, request, resp []byte) error
	// Mmap maps n bytes of the device file, shared and writable.
	Mmap(fd int, offset int64, n int) ([]byte, error)
	// Munmap takes the very slice that Mmap returned.
	Munmap(mem []byte) error
	// Discard has the device give up the mapping at once, and the addresses read as zero until Munmap.
	Discard(mem []byte) error
	// SetNonblock makes a descriptor that a command returned non-blocking.
	SetNonblock(fd int) error
	// Close closes a descriptor.
	Close(fd int) error
}
