package mpi

import (
	"context"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// The calls of this file are those without One for a single element, which is an argument or a result and needs no slice. They
// match the calls for slices of one element at other ranks. With a number they cost the same; a struct is copied to memory that
// is allocated.

// oneBuffer returns two slices of one element each, in the memory of n if it is a number.
func oneBuffer[T any](c *Comm, n *core.Number) (src, dst []T) {
	if core.IsPlain[T](c.core()) {
		sent, received := n.Bytes()
		return elementsOf[T](sent)[:1:1], elementsOf[T](received)[:1:1]
	}
	both := make([]T, 2)
	return both[:1:1], both[1:]
}

// withOne calls f with slices of one element, which are x and the zero value, and returns the element in dst afterwards.
func withOne[T any](c *Comm, x T, f func(dst, src []T) error) (T, error) {
	n := core.TakeNumber(c.core())
	src, dst := oneBuffer[T](c, n)
	src[0] = x
	clear(dst)
	err := f(dst, src)
	x = dst[0]
	n.Return(err)
	return x, err
}

// SendOne is Send of x. MPI-5.0 §3.2.1.
func SendOne[T any](c *Comm, x T, dst, tag int) error {
	n := core.TakeNumber(c.core())
	src, _ := oneBuffer[T](c, n)
	src[0] = x
	err := Send(c, src, dst, tag)
	n.Return(err)
	return err
}

// SendOneContext is SendOne that ends when ctx ends, as SendContext does. MPI-5.0 §3.2.1, §3.8.4.
func SendOneContext[T any](ctx context.Context, c *Comm, x T, dst, tag int) error {
	_, err := withOne(c, x, func(_, s []T) error { return SendContext(ctx, c, s, dst, tag) })
	return err
}

// RecvOne receives a message of one element. If the message has none, it returns the zero value and a status whose Count is 0; if
// it has more, ErrTruncate. MPI-5.0 §3.2.4.
func RecvOne[T any](c *Comm, src, tag int) (T, Status, error) {
	return recvOne(c, func(x []T) (Status, error) { return Recv(c, x, src, tag) })
}

// RecvOneContext is RecvOne that ends when ctx ends, as RecvContext does. MPI-5.0 §3.2.4, §3.8.4.
func RecvOneContext[T any](ctx context.Context, c *Comm, src, tag int) (T, Status, error) {
	return recvOne(c, func(x []T) (Status, error) { return RecvContext(ctx, c, x, src, tag) })
}

// recvOne calls f with a slice of one element, which is the zero value, and returns the element afterwards.
func recvOne[T any](c *Comm, f func(x []T) (Status, error)) (T, Status, error) {
	n := core.TakeNumber(c.core())
	_, dst := oneBuffer[T](c, n)
	clear(dst)
	st, err := f(dst)
	x := dst[0]
	n.Return(err)
	return x, st, err
}

// SendrecvOne sends x and receives one element at the same time. MPI-5.0 §3.11.
func SendrecvOne[T any](c *Comm, x T, dst, stag, src, rtag int) (T, Status, error) {
	var st Status
	x, err := withOne(c, x, func(r, s []T) (err error) {
		st, err = Sendrecv(c, s, dst, stag, r, src, rtag)
		return err
	})
	return x, st, err
}

// BcastOne returns the x of the root at every rank. The x of other ranks is ignored. MPI-5.0 §6.4.
func BcastOne[T any](c *Comm, x T, root int) (T, error) {
	return withOne(c, x, func(dst, src []T) error {
		dst[0] = src[0]
		return Bcast(c, dst, root)
	})
}

// ReduceOne combines x of all ranks and returns the result at root, and the zero value at other ranks. MPI-5.0 §6.9.1.
func ReduceOne[T any](c *Comm, x T, op Op, root int) (T, error) {
	return withOne(c, x, func(dst, src []T) error { return Reduce(c, dst, src, op, root) })
}

// AllreduceOne combines x of all ranks and returns the result at every rank. MPI-5.0 §6.9.6.
func AllreduceOne[T any](c *Comm, x T, op Op) (T, error) {
	return withOne(c, x, func(dst, src []T) error { return Allreduce(c, dst, src, op) })
}

// ScanOne combines x of the ranks up to this one. MPI-5.0 §6.11.1.
func ScanOne[T any](c *Comm, x T, op Op) (T, error) {
	return withOne(c, x, func(dst, src []T) error { return Scan(c, dst, src, op) })
}

// ExscanOne combines x of the ranks before this one. At rank 0 it returns the zero value. MPI-5.0 §6.11.2.
func ExscanOne[T any](c *Comm, x T, op Op) (T, error) {
	return withOne(c, x, func(dst, src []T) error { return Exscan(c, dst, src, op) })
}

// GatherOne returns x of all ranks at root, in the order of ranks, and nil at others. It allocates the result. MPI-5.0 §6.5.
func GatherOne[T any](c *Comm, x T, root int) ([]T, error) {
	n, err := valueCall(c, "Gather")
	if err != nil {
		return nil, err
	}
	var all []T
	if isRoot, _ := rootOf(c, root); isRoot {
		all = make([]T, n)
	}
	if _, err := withOne(c, x, func(_, src []T) error { return Gather(c, all, src, root) }); err != nil {
		return nil, err
	}
	return all, nil
}

// AllgatherOne returns x of all ranks at every rank, in the order of ranks. It allocates the result. MPI-5.0 §6.7.
func AllgatherOne[T any](c *Comm, x T) ([]T, error) {
	n, err := valueCall(c, "Allgather")
	if err != nil {
		return nil, err
	}
	all := make([]T, n)
	if _, err := withOne(c, x, func(_, src []T) error { return Allgather(c, all, src) }); err != nil {
		return nil, err
	}
	return all, nil
}

// ScatterOne returns src[r] of the root at rank r. Other ranks do not use src, which may be nil. MPI-5.0 §6.6.
func ScatterOne[T any](c *Comm, src []T, root int) (T, error) {
	var none T
	return withOne(c, none, func(dst, _ []T) error { return Scatter(c, dst, src, root) })
}
