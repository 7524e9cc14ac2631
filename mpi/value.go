package mpi

import (
	"context"
	"reflect"

	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// SendValue sends one value of any type to rank dst, as Send does. RecvValue receives it. T is the same at both sides, and
// decides what is sent:
//
//   - numbers, bool, and structs and arrays of these without pointers: the elements, as in a slice of one. So Send and Recv of
//     such a slice can be on the other side. One number is cheaper with [SendOne].
//   - strings, and slices of the above: the elements. The length is that of the message.
//   - types with MarshalBinary and UnmarshalBinary: what these make.
//   - all others: package gob.
//
// A value that cannot be encoded is an error of class ErrType, also if a method of it panics. MPI-5.0 §3.2.1.
func SendValue[T any](c *Comm, v T, dst, tag int) error {
	return sendValue(context.Background(), "SendValue", c, v, dst, tag)
}

// SendValueContext is SendValue that ends when ctx ends, as SendContext does. MPI-5.0 §3.2.1, §3.8.4.
func SendValueContext[T any](ctx context.Context, c *Comm, v T, dst, tag int) error {
	return sendValue(ctx, "SendValueContext", c, v, dst, tag)
}

// sendValue sends v for the call op.
func sendValue[T any](ctx context.Context, op string, c *Comm, v T, dst, tag int) error {
	b, kind, err := encodeValue(op, v)
	if err != nil {
		return c.callError(op, err)
	}
	d := datatype.Numbers(b, kind)
	return public(core.SendDataContext(ctx, c.core(), perf.Send, &d, dst, tag, proto.Standard))
}

// RecvValue receives one value from rank src, or AnySource, with a tag, or AnyTag. It needs no length: it allocates as much
// memory as the message has bytes. If the message cannot be decoded into a T, RecvValue discards it and returns an error of class
// ErrType. So it does if a method of T panics. A message from ProcNull is the zero value. MPI-5.0 §3.2.4, §3.8.2.
func RecvValue[T any](c *Comm, src, tag int) (v T, st Status, err error) {
	return recvValue[T](context.Background(), "RecvValue", c, src, tag)
}

// RecvValueContext is RecvValue that ends when ctx ends. If the error matches that of ctx, no message was received: it goes to
// the next receive that matches it. A message that has been matched is received to its end. MPI-5.0 §3.2.4, §3.8.2.
func RecvValueContext[T any](ctx context.Context, c *Comm, src, tag int) (v T, st Status, err error) {
	return recvValue[T](ctx, "RecvValueContext", c, src, tag)
}

// recvValue receives a value for the call op.
func recvValue[T any](ctx context.Context, op string, c *Comm, src, tag int) (v T, st Status, err error) {
	m, cst, err := core.Mprobe(ctx, c.core(), src, tag)
	if err != nil {
		return v, statusOf(cst), public(err)
	}
	b, kind := make([]byte, cst.Bytes), kindOfValue(reflect.TypeFor[T]())
	if len(b)%kind.Size() != 0 {
		kind = datatype.Byte // a message of another type, which cannot be decoded
	}
	d := datatype.Numbers(b, kind)
	if cst, err = m.Mrecv(&d); err != nil || cst.Source == ProcNull {
		return v, statusOf(cst), public(err)
	}
	v, err = receivedValue[T](c, op, b)
	return v, statusOf(cst), err
}

// valueError returns the error of a value that cannot be encoded or decoded.
func valueError(op string, err error) error { return public(core.NewError(op, core.ErrType, err)) }
