package mpi

import (
	"context"
	"errors"
	"iter"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Messages returns the messages from src with a tag as they arrive, until ctx ends or a call fails: the last pair is that
// error, without a message. src may be AnySource, and tag AnyTag. The body of the loop must receive each message, with
// [Mrecv] or [Imrecv]. After a break the messages that follow can be received by other calls. MPI-5.0 §3.8.2.
func (c *Comm) Messages(ctx context.Context, src, tag int) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		for {
			m, _, err := c.MprobeContext(ctx, src, tag)
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// Received is a message that [Messages] has received.
type Received[T any] struct {
	// Status has the source and the tag.
	Status
	// Data is valid until the next message is received.
	Data []T
}

// Messages receives the messages of elements of type T, which may be a struct without pointers, from src with a tag as they
// arrive, until ctx ends or a call fails: the last pair is that error. src may be AnySource, and tag AnyTag. A message that is
// not a whole number of elements is ErrType. After a break, or when ctx has ended, the messages that follow can be received by
// other calls. MPI-5.0 §3.8.2.
//
//	for m, err := range mpi.Messages[float64](ctx, c, mpi.AnySource, mpi.AnyTag) {
func Messages[T any](ctx context.Context, c *Comm, src, tag int) iter.Seq2[Received[T], error] {
	return func(yield func(Received[T], error) bool) {
		if v := elements[T]("Messages", nil); v.err != nil { // before a message is taken
			yield(Received[T]{}, c.callError("Messages", v.err))
			return
		}
		var buf []T
		for m, err := range c.Messages(ctx, src, tag) {
			var r Received[T]
			if err == nil {
				r, err = receive(c, m, &buf)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// receive receives a message into *buf, which it replaces if that is too short.
func receive[T any](c *Comm, m *Message, buf *[]T) (Received[T], error) {
	bytes, size := m.Status().Bytes(), messageSize[T]()
	n := 0
	if size > 0 {
		n = (bytes + size - 1) / size
	}
	if n > cap(*buf) {
		*buf = make([]T, n)
	}
	st, err := Mrecv(m, (*buf)[:n])
	if err == nil && n*size != bytes {
		err = public(c.core().CallError("Messages", core.ErrType, errors.New("the message is not a whole number of elements")))
	}
	if err != nil {
		return Received[T]{Status: st}, err
	}
	return Received[T]{st, (*buf)[:n]}, nil
}
