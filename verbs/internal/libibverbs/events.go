//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Sizes of struct ib_uverbs_comp_event_desc and ib_uverbs_async_event_desc.
const (
	compEventSize  = 8
	asyncEventSize = 16
)

// ReadEvents reads as many events as exist and as fit into p: the 8-byte tokens of completion queues, as read(2) would return
// them. It returns their length in bytes, or EAGAIN if there are none. Any number of goroutines may call it.
//
// The library reads the descriptor, because the driver must know about the event before the queue is armed again.
func (c *channel) ReadEvents(p []byte) (int, error) {
	l := c.ctx.lib
	n := 0
	for len(p)-n >= compEventSize {
		var q, token uintptr
		if err := l.do("ibv_get_cq_event", func() int32 { return l.getCQEvent(c.ptr, &q, &token) }); err != nil {
			return n, errorUnlessRead(n, err)
		}
		binary.NativeEndian.PutUint64(p[n:], uint64(token))
		n += compEventSize
		l.ackCQEvents(q, 1) // the queue may be destroyed from here on
	}
	return n, nil
}

// ReadEvents reads as many events as exist and as fit into p: 16-byte struct ib_uverbs_async_event_desc, as read(2) would return
// them, with the token of the object or the number of the port. It returns their length in bytes, or EAGAIN if there are none.
// Any number of goroutines may call it.
func (x *context) ReadEvents(p []byte) (int, error) {
	n := 0
	for len(p)-n >= asyncEventSize {
		var e ibv.AsyncEvent
		if err := x.lib.do("ibv_get_async_event", func() int32 { return x.lib.getAsyncEvent(x.ptr, &e) }); err != nil {
			return n, errorUnlessRead(n, err)
		}
		binary.NativeEndian.PutUint64(p[n:], eventElement(&e))
		binary.NativeEndian.PutUint32(p[n+8:], e.EventType)
		binary.NativeEndian.PutUint32(p[n+12:], 0)
		n += asyncEventSize
		x.lib.ackAsyncEvent(&e) // the object may be destroyed from here on
	}
	return n, nil
}

// errorUnlessRead returns nil if n bytes were read before the error. The next call returns the error again, unless it was EAGAIN.
func errorUnlessRead(n int, err error) error {
	if n > 0 {
		return nil
	}
	if errors.Is(err, syscall.EAGAIN) {
		return syscall.EAGAIN
	}
	return err
}

// eventElement returns the token of the object of an event, or the number of the port. The object exists until the event is
// acknowledged: the library does not finish its destruction earlier.
func eventElement(e *ibv.AsyncEvent) uint64 {
	switch uverbs.EventType(e.EventType) {
	case uverbs.EventCQErr:
		return uint64(structAt[ibv.CQ](e.Element).CQContext)
	case uverbs.EventQPFatal, uverbs.EventQPReqErr, uverbs.EventQPAccessErr, uverbs.EventCommEst, uverbs.EventSQDrained,
		uverbs.EventPathMig, uverbs.EventPathMigErr, uverbs.EventQPLastWQEReached:
		return uint64(structAt[ibv.QP](e.Element).QPContext)
	case uverbs.EventSRQErr, uverbs.EventSRQLimitReached:
		return uint64(structAt[ibv.SRQ](e.Element).SRQContext)
	}
	return uint64(uint32(e.Element)) // an int: the other bytes of the union are not written
}
