package tcp

import (
	"fmt"

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

// serveNext sets head and body of out to the next frame of the Reads of the peer. It returns false if there is no such Read.
func (e *endpoint) serveNext() bool {
	s := &e.serving
	if s.count == 0 {
		return false
	}
	x := &s.queue[s.first]
	n := min(len(x.rest), chunkBytes)
	sum, errno := e.framing.sumOfMemory(x.rest[:n])
	if errno != 0 {
		e.unmapped(errno)
		return false
	}
	e.out.head = e.out.headBuf[:headerBytes]
	if x.key == 0 || e.d.regions.slot(x.key) == nil {
		e.framing.header(e.out.head, kindRefusal, 0, 0)
		x.rest = nil
	} else {
		e.out.body, e.out.bodyKey, x.rest = x.rest[:n], x.key, x.rest[n:]
		e.framing.header(e.out.head, kindData, n, sum)
	}
	s.more = len(x.rest) > 0
	if !s.more {
		*x = servedRead{}
		s.first = (s.first + 1) % maxReads
		s.count--
	}
	return true
}

// unmapped is called when the peer reads memory that was unmapped in spite of its registration.
func (e *endpoint) unmapped(errno unix.Errno) {
	e.markDown(fmt.Errorf("tcp: peer %d: %w: the memory that it reads is not mapped here: %w", e.peer, fabric.ErrPeerDown, errno))
}
