package mpi

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// View is data in the memory of a slice that need not be contiguous: a column of a matrix, a face, or elements of any [Datatype].
// The methods of Comm take views, as the functions of the same names take slices. A message does not say whether its data was
// contiguous: one side may use a view and the other a slice.
//
// All bounds are checked when a view is made. An error is kept: every call with the view returns it, so a view needs no check
// where it is made. A view is a small value that refers to the memory of its slice. The zero View has no data. MPI-5.0 §5.1.
type View struct {
	data datatype.Buffer
	err  error // an *Error
}

// ViewOf returns the elements of x, one after the other. MPI-5.0 §3.2.2.
func ViewOf[T any](x []T) View {
	v := elements("ViewOf", x)
	if v.Size() == 0 {
		v.data = datatype.Buffer{}
	}
	return v
}

// elements returns the view of all elements of a slice, which a call takes. Numbers have their type
// also if there are none: checked calls compare it.
func elements[T any](op string, x []T) View {
	if k := core.KindOf[T](); k != 0 {
		return View{data: datatype.Numbers(core.Bytes(x), k)}
	}
	elem, err := core.ElementsFor[T]()
	if errors.Is(err, datatype.ErrNoElement) {
		err = fmt.Errorf("%w; SendValue and the other functions whose names end in Value take values of any type", err)
	}
	if err != nil {
		return View{err: public(core.TypeError(op, err))}
	}
	return newView(op, core.Bytes(x), elem, 0, len(x))
}

// ViewAs returns count elements of datatype t in the memory of x. Displacement 0 of the first one is at x[at]: the column with
// index j of a matrix is one element of a TypeVector at j. The view has an error of class ErrType if t is not committed or was
// freed, if T has pointers, or if T is a number and t consists of others; of ErrBuffer if elements lie outside x; of ErrCount for
// a negative count. MPI-5.0 §5.1.
func ViewAs[T any](x []T, at int, t *Datatype, count int) View {
	const op = "ViewAs"
	typ, err := t.core().Type(op)
	if err != nil {
		return View{err: public(err)}
	}
	elem, err := core.ElementsFor[T]()
	if err == nil {
		err = checkKinds(elem, typ)
	}
	if err == nil && (at < 0 || at > len(x)) {
		err = fmt.Errorf("element %d of a slice of %d: %w", at, len(x), datatype.ErrBounds)
	}
	if err != nil {
		return View{err: public(core.TypeError(op, err))}
	}
	return newView(op, core.Bytes(x), typ, at*sizeOf[T](), count)
}

// newView returns count elements whose displacement 0 is at byte origin of mem. A view without data
// has no type: any receive takes it, also if calls are checked.
func newView(op string, mem []byte, t *datatype.Type, origin, count int) View {
	data, err := t.Buffer(mem, int64(origin), int64(count))
	if err != nil {
		return View{err: public(core.TypeError(op, err))}
	}
	if data.Size() == 0 {
		return View{}
	}
	return View{data: data}
}

// checkKinds returns an error if a datatype consists of other numbers than the memory. Bytes may be anything.
func checkKinds(memory, t *datatype.Type) error {
	m, k := plainKind(memory.Kind()), plainKind(t.Kind())
	if m == 0 || k == 0 || m == k || m.Size() == 1 || k.Size() == 1 {
		return nil
	}
	return fmt.Errorf("the slice has elements of %v, but the datatype %v: %w", m, k, errKinds)
}

var errKinds = fmt.Errorf("a view does not convert: %w", datatype.ErrNoElement)

// plainKind returns the kind of Go that has the values of a kind of C.
func plainKind(k datatype.Kind) datatype.Kind {
	switch k {
	case datatype.Long:
		return datatype.Int64
	case datatype.ULong:
		return datatype.Uint64
	case datatype.WChar:
		return datatype.Int32
	}
	return k
}

// Err returns the error with which the view was made. MPI-5.0 §9.3.
func (v View) Err() error { return v.err }

// Size returns the bytes of the data, without gaps: the length of a message of it. MPI-5.0 §5.1.5.
func (v View) Size() int { return int(v.data.Size()) }

// callError returns the error of a view or of elements as that of a call on c, whose error handler is called; nil for nil.
func (c *Comm) callError(op string, err error) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	cause := e.Err
	if e.Op != op { // the call that made the view
		cause = e
	}
	return public(c.core().CallError(op, core.Class(e.Class), cause))
}

func firstError(a, b *View) error {
	if a.err != nil {
		return a.err
	}
	return b.err
}

// receivable returns the error of a call that stores data in the view: that of its making, or ErrType if entries overlap.
func (v *View) receivable(op string) error {
	if v.err != nil {
		return v.err
	}
	if err := v.data.CheckOverlap(); err != nil {
		return public(core.TypeError(op, err))
	}
	return nil
}

// PackSize returns the bytes that Pack appends for count elements of datatype t. MPI-5.0 §5.2.
func PackSize(count int, t *Datatype) (int, error) {
	return packSize("PackSize", count, t, (*datatype.Type).Size)
}

// PackExternalSize returns the bytes that PackExternal appends for count elements of datatype t. MPI-5.0 §5.3.
func PackExternalSize(count int, t *Datatype) (int, error) {
	return packSize("PackExternalSize", count, t, (*datatype.Type).ExternalSize)
}

func packSize(op string, count int, t *Datatype, size func(*datatype.Type) int64) (int, error) {
	typ, err := t.core().Type(op)
	if err != nil {
		return 0, public(err)
	}
	return public2(core.PackSize(op, count, size(typ)))
}

// Pack appends the data of a view to b, without gaps, and returns the extended slice, as append does. A message of packed data
// can be received into views, in the same order. MPI-5.0 §5.2.
func Pack(b []byte, v View) ([]byte, error) {
	if v.err != nil {
		return b, v.err
	}
	n := len(b)
	b = grow(b, v.Size())
	v.data.Pack(b[n:], 0)
	return b, nil
}

// grow appends n bytes, whose values are not defined.
func grow(b []byte, n int) []byte {
	if n > cap(b)-len(b) {
		return append(b, make([]byte, n)...)
	}
	return b[:len(b)+n]
}

// Unpack takes the data of a view from the beginning of b, stores it in the view, and returns the rest of b. It fails with
// ErrTruncate if b is too short, and with ErrType if entries of the datatype overlap; then it stores nothing. MPI-5.0 §5.2.
func Unpack(b []byte, v View) (rest []byte, err error) {
	const op = "Unpack"
	if err := v.receivable(op); err != nil {
		return b, err
	}
	if len(b) < v.Size() {
		return b, public(core.TypeError(op, fmt.Errorf("%d bytes, need %d: %w", len(b), v.Size(), datatype.ErrTruncated)))
	}
	return b[v.data.Unpack(b[:v.Size()], 0):], nil
}

// PackExternal is Pack in the representation external32, which all machines and MPI libraries share. It fails with ErrArg if a
// value of MPI_LONG, MPI_UNSIGNED_LONG or MPI_WCHAR does not fit its shorter external form. MPI-5.0 §5.3.
func PackExternal(b []byte, v View) ([]byte, error) {
	if v.err != nil {
		return b, v.err
	}
	n := len(b)
	out := grow(b, int(v.data.ExternalSize()))
	if _, err := v.data.PackExternal(out[n:]); err != nil {
		return b, public(core.TypeError("PackExternal", err))
	}
	return out, nil
}

// UnpackExternal is Unpack of the representation external32. MPI-5.0 §5.3.
func UnpackExternal(b []byte, v View) (rest []byte, err error) {
	const op = "UnpackExternal"
	if err := v.receivable(op); err != nil {
		return b, err
	}
	n, err := v.data.UnpackExternal(b)
	if err != nil {
		return b, public(core.TypeError(op, err))
	}
	return b[n:], nil
}

// Elements returns the number of basic elements in a message of elements of datatype t: numbers, not structs. It is Undefined if
// the message ends within a number. MPI-5.0 §5.1.11.
func (s Status) Elements(t *Datatype) (int, error) {
	typ, err := t.core().Type("Status.Elements")
	if err != nil {
		return 0, public(err)
	}
	sig, ok := typ.SignatureOf(int64(s.bytes))
	if !ok {
		return Undefined, nil
	}
	return int(sig.Count), nil
}

// Count returns the number of elements of datatype t in a message; Undefined if it is not a whole number. For Go types see
// [Count]. MPI-5.0 §3.2.5.
func (s Status) Count(t *Datatype) (int, error) {
	size, err := t.core().Size()
	switch {
	case err != nil:
		return 0, public(err)
	case size == 0 && s.bytes == 0:
		return 0, nil
	case size == 0 || s.bytes%size != 0:
		return Undefined, nil
	}
	return s.bytes / size, nil
}
