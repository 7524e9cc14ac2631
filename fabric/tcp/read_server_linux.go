package tcp

import (
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// serving are the Reads of the peer from this process's memory, oldest first. They are a ring buffer of count elements, the
// oldest at first.
type serving struct {
	queue        *[maxReads]servedRead // nil until the first Read
	first, count int
	// more says that the frame being sent is not the last one of its Read. Then flush lets the kernel fill its last packet with
	// what follows, which made 4 MiB a fifth faster. A Push cannot follow, as it is sent only while no Read is served. Behind the
	// last frame of a Read the kernel must not wait for the next Read: the peer would get the end of this one late, and 1 MiB was
	// a fifth slower.
	more bool
}

// servedRead is a Read that is being served.
type servedRead struct {
	key  uint64 // of the region; 0: refused
	rest []byte // still to be sent
}

// handleRead handles kindRead.
func (e *endpoint) handleRead(b []byte) error {
	if e.state == closing {
		return nil
	}
	q, _ := parseRequest(b)
	s := &e.serving
	if s.queue == nil {
		s.queue = new([maxReads]servedRead)
	}
	if s.count == maxReads {
		return fmt.Errorf("%w: more than %d reads at the same time", fabric.ErrCorrupt, maxReads)
	}
	var x servedRead
	if mem, ok := e.d.regions.find(q); ok {
		x = servedRead{q.src.Key, mem}
	}
	s.queue[(s.first+s.count)%maxReads] = x
	s.count++
	e.d.addUnsent(e)
	return nil
}

// serveNext adds the next frame of the Reads of the peer to outHead and outBody. It returns false if there is no such Read.
func (e *endpoint) serveNext() bool {
	s := &e.serving
	if s.count == 0 {
		return false
	}
	x := &s.queue[s.first]
	n := min(len(x.rest), chunkBytes)
	sum, errno := e.sumOfMemory(x.rest[:n])
	if errno != 0 {
		e.unmapped(errno)
		return false
	}
	e.outHead = e.headBuf[:headerBytes]
	if x.key == 0 || e.d.regions.slot(x.key) == nil {
		e.putHeader(e.outHead, kindRefusal, 0, 0)
		x.rest = nil
	} else {
		e.outBody, e.outKey, x.rest = x.rest[:n], x.key, x.rest[n:]
		e.putHeader(e.outHead, kindData, n, sum)
	}
	s.more = len(x.rest) > 0
	if !s.more {
		*x = servedRead{}
		s.first = (s.first + 1) % maxReads
		s.count--
	}
	return true
}

// sumOfMemory returns the checksum of registered memory, or 0 if there are none. If the memory is not mapped any more, the error
// is EFAULT, as that of a system call.
func (e *endpoint) sumOfMemory(b []byte) (sum uint32, errno unix.Errno) {
	if !e.checked {
		return 0, 0
	}
	defer recoverFault(debug.SetPanicOnFault(true), &errno)
	return addSum(0, b), 0
}

// recoverFault is deferred: it makes an access to memory that is not mapped the error EFAULT, as that of a system call. before is
// what debug.SetPanicOnFault(true) has returned.
func recoverFault(before bool, errno *unix.Errno) {
	debug.SetPanicOnFault(before)
	if x := recover(); x != nil {
		if _, ok := x.(interface{ Addr() uintptr }); !ok {
			panic(x)
		}
		*errno = unix.EFAULT
	}
}

// unmapped is called when the peer reads memory that was unmapped in spite of its registration.
func (e *endpoint) unmapped(errno unix.Errno) {
	e.markDown(fmt.Errorf("tcp: peer %d: %w: the memory that it reads is not mapped here: %w", e.peer, fabric.ErrPeerDown, errno))
}
