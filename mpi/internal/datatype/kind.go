package datatype

// Kind is the kind of an element. The zero Kind is invalid.
type Kind uint8

// The kinds. Go's int, uint and uintptr are mapped to the sized kind of their width on the machine; the caller maps Go types
// to kinds.
const (
	Bool Kind = iota + 1
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float32
	Float64
	Complex64
	Complex128

	// Kinds is one more than the greatest Kind, the length of tables that are indexed by a Kind.
	Kinds = iota + 1
)

var kindNames = [Kinds]string{
	"none", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
	"float32", "float64", "complex64", "complex128",
}

var kindSizes = [Kinds]uint8{0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16}

// String returns the name of the Go type.
func (k Kind) String() string {
	if k >= Kinds {
		return "invalid"
	}
	return kindNames[k]
}

// Size returns the size of one element in bytes, 0 for an invalid kind.
func (k Kind) Size() int {
	if k >= Kinds {
		return 0
	}
	return int(kindSizes[k])
}
