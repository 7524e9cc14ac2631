package notes

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// ErrType reports that a message and its receive have elements of different types.
var ErrType = errors.New("element types differ")

// Note describes a message, or a receive, as the program wrote it.
type Note struct {
	// Type is the name of the type of the elements, or mixedType with the signature of all.
	Type string
	// mixed are the elements if they are of several types.
	mixed datatype.Buffer
	// Op is the call, and Where its source position, such as "solver/main.go:31".
	Op    perf.Op
	Where string
}

// String returns "Send of float64 at solver/main.go:31".
func (n *Note) String() string {
	return fmt.Sprintf("%v of %s at %s", n.Op, n.Type, n.Where)
}

// Elements of several types are described by their signature: mixedType, the number of bytes, and
// in hexadecimal the number of elements and the hash. A message that is shorter than its receive is
// compared with the beginning of the receive.
const mixedType = "mixed"

// SetMixed makes n describe the elements of d, which are of several types.
func (n *Note) SetMixed(d *datatype.Buffer) {
	s, _ := d.SignatureOf(d.Size())
	n.mixed, n.Type = *d, fmt.Sprintf("%s:%d:%x:%x", mixedType, d.Size(), s.Count, s.Hash)
}

// accepts reports whether a receive with the note n may receive a message with another note: one of
// packed bytes, an empty one, or one with the same elements as the beginning of the receive. A
// longer one is an error of another kind.
func (n *Note) accepts(sent *Note) bool {
	packed, none := datatype.Packed.String(), datatype.Kind(0).String()
	if n.Type == packed || sent.Type == packed || sent.Type == none || n.Type == none {
		return true
	}
	var bytes int64
	var s datatype.Signature
	if c, err := fmt.Sscanf(sent.Type, mixedType+":%d:%x:%x", &bytes, &s.Count, &s.Hash); c != 3 || err != nil {
		return false
	}
	own, ok := n.mixed.SignatureOf(bytes)
	return ok && own == s || n.mixed.Size() != 0 && bytes > n.mixed.Size()
}

// typeError is an ErrType with the details of the message.
type typeError struct {
	source        int32
	sent, receive *Note
}

func (t *typeError) Error() string {
	return fmt.Sprintf("%v, but rank %d sent it with %v", t.receive, t.source, t.sent)
}

// Unwrap makes the error an ErrType.
func (t *typeError) Unwrap() error { return ErrType }
