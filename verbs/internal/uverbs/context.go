package uverbs

import (
	"sync/atomic"
	"syscall"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Context is an open device. Any goroutine may call any method at any time.
type Context struct {
	device  Device
	kernel  Kernel
	post    func(fd int, command, resp []byte) error // kernel.Post, without the way over the interface
	fd      int
	asyncFD int
	vectors int
	sink    []byte // the answer to doorbells, which nobody reads

	// calls is the number of system calls under way on fd, and one for the context itself until Close. A descriptor that was
	// closed may be another file a moment later, so the last of them closes it.
	calls atomic.Int64
}

const closing = 1 << 62 // set in calls by Close

// OpenWith opens a device as [Open] does, on the given kernel.
func OpenWith(k Kernel, d Device) (*Context, error) {
	c := &Context{device: d, kernel: k, post: poster(k), fd: -1, asyncFD: -1, sink: make([]byte, 4)}
	fd, rdev, err := k.Open(c.path())
	if err != nil {
		return nil, c.fail("open", err)
	}
	c.fd = fd
	c.calls.Store(1)
	if rdev != d.Dev {
		c.Close()
		return nil, &Error{Call: "open", Device: c.path(), Err: syscall.ENODEV,
			Hint: "the file is of another device than sysfs says; it was replaced, or made by hand"}
	}
	var resp abi.GetContextResp
	if err := call(c, abi.CmdGetContext, &abi.GetContext{}, &resp, Driver{}); err != nil {
		c.Close()
		return nil, err
	}
	c.asyncFD, c.vectors = int(int32(resp.AsyncFD)), int(resp.NumCompVectors)
	if err := k.SetNonblock(c.asyncFD); err != nil {
		c.Close()
		return nil, c.fail("make the event descriptor non-blocking", err)
	}
	return c, nil
}

func (c *Context) path() string { return "/dev/infiniband/" + c.device.Uverbs }

// AsyncFD is the descriptor from which asynchronous events are read, for [DecodeAsyncEvent]: one at a read. It is non-blocking
// and belongs to the context.
func (c *Context) AsyncFD() int { return c.asyncFD }

// CompVectors is the number of completion vectors.
func (c *Context) CompVectors() int { return c.vectors }

// Map maps n bytes of the device's file from offset on, where a driver said that a queue is. The mapping may outlive the
// context; its memory goes when both it and the queue are gone.
func (c *Context) Map(offset uint64, n int) ([]byte, error) {
	if !c.enter() {
		return nil, c.fail("mmap", ErrClosed)
	}
	defer c.leave()
	mem, err := c.kernel.Mmap(c.fd, int64(offset), n)
	if err != nil {
		return nil, c.fail("mmap", err)
	}
	return mem, nil
}

// Discard gives the mapping back to the device at once, as Unmap does, but leaves the addresses readable until Unmap: for
// memory that another goroutine may be looking at.
func (c *Context) Discard(mem []byte) error {
	if err := c.kernel.Discard(mem); err != nil {
		return c.fail("discard a mapping", err)
	}
	return nil
}

// Unmap takes the very slice that Map returned.
func (c *Context) Unmap(mem []byte) error {
	if err := c.kernel.Munmap(mem); err != nil {
		return c.fail("munmap", err)
	}
	return nil
}

// Close closes the device; the kernel destroys whatever was made in this context. Calls under way end first, later ones return
// [ErrClosed], and so does a second Close. Descriptors of completion channels stay open until they are closed themselves.
func (c *Context) Close() error {
	if c.calls.Or(closing)&closing != 0 {
		return c.fail("close", ErrClosed)
	}
	c.leave()
	return nil
}

// enter begins a system call on the descriptor. It is false after Close.
func (c *Context) enter() bool {
	for {
		n := c.calls.Load()
		if n&closing != 0 {
			return false
		}
		if c.calls.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave ends a system call.
func (c *Context) leave() {
	if c.calls.Add(-1) == closing {
		c.last()
	}
}

// last closes the descriptors when the last call after Close has ended; close(2) of these files knows no error.
func (c *Context) last() {
	c.kernel.Close(c.fd)
	if c.asyncFD >= 0 {
		c.kernel.Close(c.asyncFD)
	}
}
