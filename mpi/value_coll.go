package mpi

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// On an intercommunicator the collectives of values move them between its groups, as those of slices do: a root gives Root, and
// the others of its group give ProcNull and get no value. Values of one length take one collective, others two: first the
// lengths. A value that cannot be encoded is an error at its rank and at those that should get it, and the communicator stays
// usable.

var errNotEncoded = errors.New("it could not be encoded there")

// failedLength is sent in place of the length of a value that could not be encoded.
const failedLength = -1

// fixedSize returns the number of bytes of a value, if it is the same for all values of a type; -1 if not.
func fixedSize(rt reflect.Type) int {
	if form, elem := formOf(rt); form == formPlain {
		return int(elem.Size())
	}
	return -1
}

// valueCall checks the communicator of a collective that returns its result. It returns the number of ranks with which this one
// exchanges values.
func valueCall(c *Comm, op string) (ranks int, err error) {
	return public2(c.core().Collectives().Partners(op))
}

// rootOf reports whether this rank is the root of a call, and whether it exchanges a value with the root, which may be itself.
// On an intercommunicator the ranks of the root's group do not.
func rootOf(c *Comm, root int) (isRoot, takesPart bool) {
	if c.Remote() {
		return root == Root, root >= 0
	}
	return root == c.Rank(), true
}

// callBytes makes a blocking collective of encoded values, which have a kind.
func callBytes(c *Comm, x *core.Collective, k datatype.Kind, dst, src []byte) error {
	x.Dst, x.Src, x.Elements = dst, src, core.OfKind(k)
	return public(c.core().Collectives().Call(x))
}

// exchangeValues sends values and returns those received, with their lengths. Values of one length
// need one collective, kind. Others need two: kind exchanges the lengths, then blocks the bytes. src
// has the values of this rank, and lengths their lengths. This rank receives n values.
func exchangeValues[T any](c *Comm, kind, blocks perf.Op, root int, src []byte, lengths []int64, n int) (
	dst []byte, received []int64, err error,
) {
	rt := reflect.TypeFor[T]()
	if size := fixedSize(rt); size >= 0 {
		dst = make([]byte, n*size)
		received = slices.Repeat([]int64{int64(size)}, n)
		return dst, received, callBytes(c, &core.Collective{Kind: kind, Root: root}, kindOfValue(rt), dst, src)
	}
	received = make([]int64, n)
	if err := callSlices(c, &core.Collective{Kind: kind, Root: root}, received, lengths); err != nil {
		return nil, nil, err
	}
	scounts, _ := countsOf(lengths)
	rcounts, total := countsOf(received)
	dst = make([]byte, total)
	x := bothBlocks(blocks, rcounts, nil, scounts, nil)
	x.Root = root
	return dst, received, callBytes(c, x, datatype.Byte, dst, src)
}

// notFrom returns the error of a value that a rank could not encode.
func notFrom(op string, rank int) error {
	return valueError(op, fmt.Errorf("the value of rank %d: %w", rank, errNotEncoded))
}

// BcastValue returns the root's v at every rank. Others' v is not used. See SendValue for the types. MPI-5.0 §6.4.
func BcastValue[T any](c *Comm, v T, root int) (T, error) {
	const op = "BcastValue"
	if _, err := valueCall(c, op); err != nil {
		return v, err
	}
	var b []byte
	var kind datatype.Kind
	var failed error
	isRoot, takesPart := rootOf(c, root)
	fixed := fixedSize(reflect.TypeFor[T]()) >= 0
	if isRoot || fixed {
		b, kind, failed = encodeValue(op, v)
	}
	if !fixed {
		n := []int64{int64(len(b))}
		if failed != nil {
			n[0] = failedLength
		}
		if err := Bcast(c, n, root); err != nil {
			return v, err
		}
		if !isRoot {
			b = make([]byte, max(0, n[0]))
		}
		if !isRoot && n[0] == failedLength {
			failed = notFrom(op, root)
		}
		kind = kindOfValue(reflect.TypeFor[T]())
	}
	if err := callBytes(c, &core.Collective{Kind: perf.Bcast, Root: root}, kind, b, nil); err != nil {
		return v, err
	}
	if failed != nil || isRoot || !takesPart {
		return v, c.callError(op, failed)
	}
	return receivedValue[T](c, op, b)
}

// GatherValue returns the values of all ranks at root, in the order of ranks, and nil at others. See SendValue for the types.
// MPI-5.0 §6.5.
func GatherValue[T any](c *Comm, v T, root int) ([]T, error) {
	const op = "GatherValue"
	size, err := valueCall(c, op)
	if err != nil {
		return nil, err
	}
	isRoot, takesPart := rootOf(c, root)
	var b []byte
	var failed error
	if takesPart {
		b, _, failed = encodeValue(op, v)
	}
	if !isRoot {
		size = 0
	}
	all, lengths, err := exchangeValues[T](c, perf.Gather, perf.Gatherv, root, b, []int64{lengthOf(b, failed)}, size)
	if err != nil {
		return nil, err
	}
	if !isRoot {
		return nil, c.callError(op, failed)
	}
	return valuesIn[T](c, op, all, lengths, failed)
}

// AllgatherValue returns the values of all ranks at every rank, in the order of ranks. See SendValue for the types. MPI-5.0 §6.7.
func AllgatherValue[T any](c *Comm, v T) ([]T, error) {
	const op = "AllgatherValue"
	size, err := valueCall(c, op)
	if err != nil {
		return nil, err
	}
	b, _, failed := encodeValue(op, v)
	all, lengths, err := exchangeValues[T](c, perf.Allgather, perf.Allgatherv, 0, b, []int64{lengthOf(b, failed)}, size)
	if err != nil {
		return nil, err
	}
	return valuesIn[T](c, op, all, lengths, failed)
}

// ScatterValue returns element i of root's vs at rank i. Others' vs is not used. It fails with ErrCount at root if vs has another
// length than the communicator. See SendValue for the types. MPI-5.0 §6.6.
func ScatterValue[T any](c *Comm, vs []T, root int) (v T, err error) {
	const op = "ScatterValue"
	size, err := valueCall(c, op)
	if err != nil {
		return v, err
	}
	isRoot, takesPart := rootOf(c, root)
	if !isRoot {
		vs = nil
	} else if len(vs) != size {
		return v, c.callError(op, wrongCount(op, len(vs), size))
	}
	all, lengths, failed := encodeValues(op, vs)
	b, n, err := exchangeValues[T](c, perf.Scatter, perf.Scatterv, root, all, lengths, 1)
	switch {
	case err != nil:
		return v, err
	case failed != nil:
		return v, c.callError(op, failed)
	case !takesPart:
		return v, nil
	case n[0] == failedLength:
		return v, c.callError(op, notFrom(op, root))
	}
	return receivedValue[T](c, op, b)
}

// AlltoallValue sends vs[i] to rank i, and returns the values that this rank gets, in the order of ranks. It fails with ErrCount
// if vs has another length than the communicator. See SendValue for the types. MPI-5.0 §6.8.
func AlltoallValue[T any](c *Comm, vs []T) ([]T, error) {
	const op = "AlltoallValue"
	size, err := valueCall(c, op)
	if err != nil {
		return nil, err
	}
	if len(vs) != size {
		return nil, c.callError(op, wrongCount(op, len(vs), size))
	}
	out, lengths, failed := encodeValues(op, vs)
	in, lengths, err := exchangeValues[T](c, perf.Alltoall, perf.Alltoallv, 0, out, lengths, size)
	if err != nil {
		return nil, err
	}
	return valuesIn[T](c, op, in, lengths, failed)
}

func wrongCount(op string, got, want int) error {
	return public(core.NewError(op, core.ErrCount, fmt.Errorf("%d values for %d ranks", got, want)))
}

// lengthOf returns the length that is sent for a value.
func lengthOf(b []byte, failed error) int64 {
	if failed != nil {
		return failedLength
	}
	return int64(len(b))
}

// countsOf returns how many bytes are moved for values, and the sum. It is nil for nil.
func countsOf(lengths []int64) (counts []int, total int) {
	for _, n := range lengths {
		n = max(0, n)
		counts = append(counts, int(n))
		total += int(n)
	}
	return counts, total
}

// encodeValues returns values as bytes, one after the other, and their lengths. The error is that of the first one that could not
// be encoded.
func encodeValues[T any](op string, vs []T) (all []byte, lengths []int64, failed error) {
	for _, v := range vs {
		b, _, err := encodeValue(op, v)
		if err != nil && failed == nil {
			failed = err
		}
		all = append(all, b...)
		lengths = append(lengths, lengthOf(b, err))
	}
	return all, lengths, failed
}

// valuesIn returns the values of all ranks. The error joins failed, that of this rank's own value, and those of all others.
func valuesIn[T any](c *Comm, op string, all []byte, lengths []int64, failed error) ([]T, error) {
	vs := make([]T, len(lengths))
	errs := []error{failed}
	for i, n := range lengths {
		var err error
		if n == failedLength {
			err = notFrom(op, i)
		} else {
			vs[i], err = decodeValue[T](op, all[:n:n])
			all = all[n:]
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, c.callError(op, valueError(op, err))
	}
	return vs, nil
}
