package uverbs

import (
	"sync/atomic"
	"syscall"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Context is an open device. Any goroutine may call any method at any time.
type Context struct {
	device       Device
	kernel       Kernel
	post         func(fd int, command, resp []byte) error // kernel.Post, resolved once to save the interface call
	fd           int
	asyncFD      int
	vectors      int
	doorbellResp []byte // where the kernel writes the responses to doorbells; never read

	// calls is the number of system calls in progress on fd, plus one for the context itself until Close. The call that decrements
	// it to zero after Close closes fd: closing it earlier could make a call use another file with the same descriptor.
	calls atomic.Int64
}

const closing = 1 << 62 // set in calls by Close

// OpenWith opens a device as [Open] does, on the given kernel.
func OpenWith(k Kernel, d Device) (*Context, error) {
	c := &Context{device: d, kernel: k, post: postFunc(k), fd: -1, asyncFD: -1, doorbellResp: make([]byte, 4)}
	fd, rdev, err := k.Open(c.path())
	if err != nil {
		return nil, c.fail("open", err)
	}
	c.fd = fd
	c.calls.Store(1)
	if rdev != d.Dev {
		c.Close()
		return nil, &Error{Call: "open", Device: c.path(), Err: syscall.ENODEV,
			Hint: "the device number of the file is not that in sysfs; the file was replaced or created by hand"}
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

// AsyncFD returns the descriptor from which asynchronous events are read, one per read, for [DecodeAsyncEvent]. It is
// non-blocking and belongs to the context.
func (c *Context) AsyncFD() int { return c.asyncFD }

// CompVectors returns the number of completion vectors.
func (c *Context) CompVectors() int { return c.vectors }

// Map maps n bytes of the device's file from offset on, where the driver has placed a queue. The mapping may outlive the context.
// The kernel frees the memory when the queue is destroyed and the mapping is unmapped.
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

// Discard releases the memory of the mapping immediately, as Unmap does, but leaves the addresses readable until Unmap. It is for
// memory that another goroutine may be reading.
func (c *Context) Discard(mem []byte) error {
	if err := c.kernel.Discard(mem); err != nil {
		return c.fail("discard a mapping", err)
	}
	return nil
}

// Unmap unmaps a mapping. mem must be the slice that Map returned.
func (c *Context) Unmap(mem []byte) error {
	if err := c.kernel.Munmap(mem); err != nil {
		return c.fail("munmap", err)
	}
	return nil
}

// Close closes the device. The kernel destroys everything that was created in this context. Calls in progress end first. Later
// calls, and a second Close, return [ErrClosed]. Descriptors of completion channels stay open until they are closed themselves.
func (c *Context) Close() error {
	if c.calls.Or(closing)&closing != 0 {
		return c.fail("close", ErrClosed)
	}
	c.leave()
	return nil
}

// enter begins a system call on the descriptor, which leave ends. It returns false after Close.
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
		c.closeFDs()
	}
}

// closeFDs closes the descriptors when the last call after Close has ended. close(2) of these files cannot fail.
func (c *Context) closeFDs() {
	c.kernel.Close(c.fd)
	if c.asyncFD >= 0 {
		c.kernel.Close(c.asyncFD)
	}
}
