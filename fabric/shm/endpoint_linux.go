package shm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
)

var (
	_ fabric.Endpoint = (*endpoint)(nil)
	_ fabric.Gatherer = (*endpoint)(nil)
)

// endpoint is the ring to one peer. Its fields belong to the goroutine that uses the domain, apart from endErr.
type endpoint struct {
	w              *ring.Writer
	flags          *uint32               // of the peer
	fence          bool                  // execute a fence between publishing a record and loading the flags
	endErr         atomic.Pointer[error] // what Send returns after the end: one of those below; nil: open
	to             int                   // local number of the peer
	inPrefetchList bool                  // in Domain.toPrefetch
	nextPrefetch   *endpoint             // next element of that list
	control        *control              // the peer's control block
	pid            atomic.Int64          // of the peer's process, stored by the first Read or Write, in any goroutine; 0: not yet
	d              *Domain
	mem            []byte // of the ring
}

// maxAnswerPolls is the number of Polls that find nothing for which an answer to a message is expected: about half a microsecond
// on the processor that was measured, the round trip of two cores far apart.
const maxAnswerPolls = 16

// Send copies one message into the ring. After that it loads the peer's flags, which are not zero if the peer sleeps. The store
// of the record and this load are the sender's half of the protocol in Domain.Arm. A peer that closes after the store may have
// read the message, so that is not an error: an event reports it.
func (e *endpoint) Send(header, payload []byte) error {
	if err := e.endErr.Load(); err != nil {
		return *err
	}
	if atomic.LoadUint32(e.flags)&closed != 0 {
		return fabric.ErrPeerClosed
	}
	ok, err := e.w.Put(header, payload)
	if !ok {
		if ok, err = e.growAndPut(header, payload, err); !ok {
			return e.sendError(err)
		}
	}
	e.d.lastSentTo, e.d.answerPolls = e.to, maxAnswerPolls
	if e.fence {
		e.fenceAfterPut()
	}
	if atomic.LoadUint32(e.flags) != 0 {
		e.d.wakePeer(e.to)
	}
	if e.w.NeedsPrefetch() {
		e.afterLongMessage()
	}
	return nil
}

// SendFrom is Send for a message that src packs directly into the ring. Its last lines repeat those of Send: the
// compiler would not inline a function for them, and a call costs Send several nanoseconds.
func (e *endpoint) SendFrom(header []byte, src fabric.Source, from int64, n int) error {
	if err := e.endErr.Load(); err != nil {
		return *err
	}
	if atomic.LoadUint32(e.flags)&closed != 0 {
		return fabric.ErrPeerClosed
	}
	if err := e.growFor(len(header) + n); err != nil {
		return err
	}
	if ok, err := e.w.PutFrom(header, src, from, n); !ok {
		return e.sendError(err)
	}
	e.d.lastSentTo, e.d.answerPolls = e.to, maxAnswerPolls
	if e.fence {
		e.fenceAfterPut()
	}
	if atomic.LoadUint32(e.flags) != 0 {
		e.d.wakePeer(e.to)
	}
	if e.w.NeedsPrefetch() {
		e.afterLongMessage()
	}
	return nil
}

// afterLongMessage puts the ring on the list for prefetching, and gives it the largest space when it has carried many long
// messages.
func (e *endpoint) afterLongMessage() {
	if !e.inPrefetchList {
		e.inPrefetchList, e.nextPrefetch, e.d.toPrefetch = true, e.d.toPrefetch, e
	}
	if e.w.LongCount() < largeAfter || e.d.largeRings == maxLargeRings || e.w.Capacity() >= e.d.largest {
		return
	}
	if e.growRing(e.d.largest) == nil {
		e.d.largeRings++
	} else {
		e.d.largeRings = maxLargeRings // memory is short: do not try again for any ring
	}
}

// growRing gives the ring memory for a larger space.
func (e *endpoint) growRing(space int) error {
	if err := e.d.seg.Allocate(ringOffset(e.d.selfIndex, e.to, len(e.d.local)), ringBytes(space)); err != nil {
		return err
	}
	_ = ring.Populate(e.mem[:ringBytes(space)]) // else the pages are entered when they are touched
	e.w.SetCapacity(space)
	return nil
}

// growAndPut handles a Put that failed: if the message is the first that is too long for the ring, it grows the ring and puts the
// message. Otherwise it returns the failure unchanged.
func (e *endpoint) growAndPut(header, payload []byte, err error) (bool, error) {
	n := len(header) + len(payload)
	if err == nil || n > maxPayload+maxHeader || n <= ring.MaxRecord(e.w.Capacity()) {
		return false, err
	}
	if err := e.growFor(n); err != nil {
		return false, err
	}
	return e.w.Put(header, payload)
}

// growFor grows the ring if a message of n bytes, at most the largest, is the first that is too long for it.
func (e *endpoint) growFor(n int) error {
	if n <= ring.MaxRecord(e.w.Capacity()) || n > maxPayload+maxHeader {
		return nil
	}
	if err := e.growRing(mediumSpace); err != nil {
		return fmt.Errorf("shm: allocate memory for long messages to peer %d: %w", e.d.local[e.to], err)
	}
	return nil
}

// fenceAfterPut makes the record visible before the peer's flags are loaded. When the peer has opened, its needsFence says
// whether the fence is needed at all.
func (e *endpoint) fenceAfterPut() {
	if atomic.LoadUint32(&e.control.opened) != 0 {
		e.fence = !e.d.canBarrier || e.control.needsFence != 0
	}
	e.d.fence()
}

// sendError returns why a message was not sent.
func (e *endpoint) sendError(err error) error {
	switch {
	case errors.Is(err, ring.ErrCorrupt):
		err = corrupt(e.d.local[e.to], err)
		e.d.markDown(e.to, err)
		return err
	case err != nil:
		return err
	case atomic.LoadUint32(e.flags)&closed != 0:
		return fabric.ErrPeerClosed
	}
	return fabric.ErrAgain
}

// Read copies from the peer's memory in one system call.
func (e *endpoint) Read(dst []byte, _ fabric.Region, src fabric.RemoteKey, _ uint64) (bool, error) {
	return e.copyRemote(unix.SYS_PROCESS_VM_READV, dst, src.Addr)
}

// Write copies into the peer's memory in one system call.
func (e *endpoint) Write(src []byte, _ fabric.Region, dst fabric.RemoteKey, _ uint64) (bool, error) {
	return e.copyRemote(unix.SYS_PROCESS_VM_WRITEV, src, dst.Addr)
}

// copyRemote copies between b and the peer's memory. trap is the number of the system call.
func (e *endpoint) copyRemote(trap uintptr, b []byte, addr uint64) (bool, error) {
	if err := e.endErr.Load(); err != nil {
		return false, *err
	}
	pid := int(e.pid.Load())
	if pid == 0 {
		if atomic.LoadUint32(&e.control.opened) == 0 || e.control.pidns != e.d.pidns || e.control.pid == 0 {
			return false, fmt.Errorf("%w: copying between processes needs both processes in one pid namespace", fabric.ErrNotSupported)
		}
		pid = int(e.control.pid)
		e.pid.Store(int64(pid))
	}
	if err := copyProcessMemory(trap, pid, b, addr); err != nil {
		return false, err
	}
	return true, nil
}

// Close notifies the peer that nothing more is sent to it.
func (e *endpoint) Close() error {
	if e.endErr.CompareAndSwap(nil, &errClosed) {
		e.d.stopReading(e.to)
		e.d.notify(e.to, &e.d.controls[e.to].closedFrom)
	}
	return nil
}

// Values of endpoint.endErr, as a pointer, so that the check in Send costs one load.
var (
	errClosed     = fabric.ErrClosed
	errDown       = fabric.ErrPeerDown
	errPeerClosed = fabric.ErrPeerClosed
)

func (e *endpoint) unmap() error {
	e.endErr.Store(&errClosed)
	if e.mem == nil {
		return nil
	}
	mem := e.mem
	e.mem = nil
	return ring.Unmap(mem)
}
