package datatype

// Kind is the kind of a basic element: how a value is represented in memory and in external data. The zero Kind is invalid.
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
	// Byte is 8 bits without meaning, which match only such bytes.
	Byte
	// Packed is a byte of what a pack call has made.
	Packed
	// Char is a character of text, which is not a number.
	Char
	// WChar is C's wchar_t. It has 2 bytes in external data.
	WChar
	// Long is C's long. It is Int64 but for external data, where it has 4 bytes.
	Long
	// ULong is C's unsigned long. It is Uint64 but for external data, where it has 4 bytes.
	ULong
	// Float16 is the format binary16 of IEEE 754.
	Float16
	// BFloat16 is the upper half of a Float32.
	BFloat16

	// Kinds is one more than the greatest Kind, the length of tables that are indexed by a Kind.
	Kinds = iota + 1
)

// kindTable describes the kinds. MPI-5.0 §14.5.2 has the external lengths.
var kindTable = [Kinds]struct {
	name     string
	size     uint8
	align    uint8
	external uint8
}{
	{"none", 0, 0, 0},
	{"bool", 1, 1, 1},
	{"int8", 1, 1, 1}, {"int16", 2, 2, 2}, {"int32", 4, 4, 4}, {"int64", 8, 8, 8},
	{"uint8", 1, 1, 1}, {"uint16", 2, 2, 2}, {"uint32", 4, 4, 4}, {"uint64", 8, 8, 8},
	{"float32", 4, 4, 4}, {"float64", 8, 8, 8}, {"complex64", 8, 4, 8}, {"complex128", 16, 8, 16},
	{"byte", 1, 1, 1}, {"packed", 1, 1, 1}, {"char", 1, 1, 1}, {"wchar", 4, 4, 2},
	{"long", 8, 8, 4}, {"unsigned long", 8, 8, 4},
	{"float16", 2, 2, 2}, {"bfloat16", 2, 2, 2},
}

// String returns the name of the Go type, or of the C type if there is none in Go.
func (k Kind) String() string {
	if k >= Kinds {
		return "invalid"
	}
	return kindTable[k].name
}

// Size returns the size of one element in bytes, 0 for an invalid kind.
func (k Kind) Size() int {
	if k >= Kinds {
		return 0
	}
	return int(kindTable[k].size)
}

// ExternalSize returns the size of one element in external32 data, 0 for an invalid kind. MPI-5.0 §14.5.2.
func (k Kind) ExternalSize() int {
	if k >= Kinds {
		return 0
	}
	return int(kindTable[k].external)
}
