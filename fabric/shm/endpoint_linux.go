package shm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
)

// endpoint is the ring to one peer.
type endpoint struct {
	w     *ring.Writer
	flags *uint32               // of the peer
	fence bool                  // between publishing a record and looking whether the peer sleeps
	ended atomic.Pointer[error] // why nothing goes any more: one of those below; nil: open
	to    int
	idle  bool      // among those of Domain.idle
	after *endpoint // the one before it there
	peer  *control
	d     *Domain
	mem   []byte
}

// answerLooks is for how many Polls that find nothing an answer to a message is expected: some half a microsecond on the
// processor that was measured, as two cores far apart take for there and back.
const answerLooks = 16

// Send copies one message into the ring.
func (e *endpoint) Send(header, payload []byte) error {
	if err := e.ended.Load(); err != nil {
		return *err
	}
	ok, err := e.w.Put(header, payload)
	if !ok {
		if ok, err = e.again(header, payload, err); !ok {
			return e.refused(err)
		}
	}
	e.d.asked, e.d.looks = e.to, answerLooks
	if e.fence {
		e.order()
	}
	if atomic.LoadUint32(e.flags) != 0 {
		err = e.notice()
	}
	if e.w.Behind() {
		e.long()
	}
	return err
}

// long sees to what is to be done after long messages.
func (e *endpoint) long() {
	if !e.idle {
		e.idle, e.after, e.d.idle = true, e.d.idle, e
	}
	if e.w.Long() < wideAfter || e.d.wide == wideRings || e.w.Room() == wideSpace {
		return
	}
	if e.widen(wideSpace) == nil {
		e.d.wide++
	} else {
		e.d.wide = wideRings // memory is short: long messages go as they do to further peers, and nothing is tried again
	}
}

// widen gives the ring memory for so much space.
func (e *endpoint) widen(space int) error {
	if err := e.d.seg.Allocate(ringOffset(e.d.me, e.to, len(e.d.local)), ringBytes(space)); err != nil {
		return err
	}
	ring.Populate(e.mem[:ringBytes(space)])
	e.w.Confine(space)
	return nil
}

// again puts a message that is the first of its length once there is memory for it. Others fail as before.
func (e *endpoint) again(header, payload []byte, err error) (bool, error) {
	if n := len(header) + len(payload); err == nil || n > maxPayload+maxHeader || n <= ring.MaxRecord(e.w.Room()) {
		return false, err
	}
	if err := e.widen(longSpace); err != nil {
		return false, fmt.Errorf("shm: room for long messages to peer %d: %w", e.d.local[e.to], err)
	}
	return e.w.Put(header, payload)
}

// Stream follows from what writing into the ring has shown about the peer's core, unless it was set, and from its room.
func (e *endpoint) Stream() int {
	switch {
	case e.d.stream > 0:
		return e.d.stream
	case e.w.Far() || e.d.wide == wideRings && e.w.Room() < wideSpace:
		return StreamFar
	}
	return StreamNear
}

// order makes the record visible before the peer's flags are looked at. Once the peer has opened it may turn out that
// the peer does this itself.
func (e *endpoint) order() {
	if atomic.LoadUint32(&e.peer.opened) != 0 {
		e.fence = !e.d.barrier || e.peer.fence != 0
	}
	e.d.fence()
}

// refused says why a message did not go.
func (e *endpoint) refused(err error) error {
	switch {
	case errors.Is(err, ring.ErrCorrupt):
		err = corrupt(e.d.local[e.to], err)
		e.d.lose(e.to, err)
		return err
	case err != nil:
		return err
	case atomic.LoadUint32(e.flags)&closed != 0:
		return fabric.ErrPeerClosed
	}
	return fabric.ErrAgain
}

// notice looks at a peer that is not simply open and awake.
func (e *endpoint) notice() error {
	if atomic.LoadUint32(e.flags)&closed != 0 {
		return fabric.ErrPeerClosed
	}
	e.d.rouse(e.to)
	return nil
}

// Read copies from the peer's memory in one system call.
func (e *endpoint) Read(dst []byte, _ fabric.Region, src fabric.RemoteKey, _ uint64) (bool, error) {
	return e.move(unix.SYS_PROCESS_VM_READV, dst, src.Addr)
}

// Write copies into the peer's memory in one system call.
func (e *endpoint) Write(src []byte, _ fabric.Region, dst fabric.RemoteKey, _ uint64) (bool, error) {
	return e.move(unix.SYS_PROCESS_VM_WRITEV, src, dst.Addr)
}

func (e *endpoint) move(trap uintptr, b []byte, addr uint64) (bool, error) {
	if err := e.ended.Load(); err != nil {
		return false, *err
	}
	if atomic.LoadUint32(&e.peer.opened) == 0 || e.peer.pidns != e.d.pidns {
		return false, fmt.Errorf("%w: copying between processes needs a common pid namespace", fabric.ErrNotSupported)
	}
	if err := moveMemory(trap, int(e.peer.pid), b, addr); err != nil {
		return false, err
	}
	return true, nil
}

// Close tells the peer that nothing more comes this way.
func (e *endpoint) Close() error {
	if e.ended.CompareAndSwap(nil, &errClosed) {
		e.d.mute(e.to)
		e.d.tell(e.to, &e.d.controls[e.to].gone)
	}
	return nil
}

// Endpoints that have ended say why by a pointer to one of these, so that asking costs one load.
var (
	errClosed = fabric.ErrClosed
	errDown   = fabric.ErrPeerDown
	errLeft   = fabric.ErrPeerClosed
)

func (e *endpoint) unmap() error {
	e.ended.Store(&errClosed)
	if e.mem == nil {
		return nil
	}
	mem := e.mem
	e.mem = nil
	return ring.Unmap(mem)
}
