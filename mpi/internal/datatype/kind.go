package datatype

import "reflect"

// Kind is the kind of a basic element: how a value is represented in memory and in external data. The zero Kind is invalid.
// A new one needs changes in other packages too, such as its reductions: CONTRIBUTING.md lists them
// under "Add an element type".
type Kind uint8

// The kinds. Go's int, uint and uintptr have the sized kind of their width on the machine; see
// KindOf.
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

// kindTable describes the kinds. All that a datatype has to know about a kind follows from its
// row. The exceptions are the kinds whose external form is more than another order of bytes: their
// conversions are in external.go.
//
//   - name is that of the Go type, or of the C type if Go has none.
//   - goKind is that of the Go types with this kind. It is 0 for types that only C has.
//   - goType is the name of one type of package mpi. If it is empty, all types of the goKind have
//     this kind, except those that another row names.
//   - size and align are in bytes, on 64-bit Linux and macOS. An element whose alignment is less
//     than its size is several numbers.
//   - external is the size in external32 data (MPI-5.0 §14.5.2).
//   - mpi has the names of predefined types: those of C and of a fixed width (MPI-5.0 §3.2.2), and
//     those of C++ and Fortran that are the same. MPI_LONG_DOUBLE, MPI_C_LONG_DOUBLE_COMPLEX and
//     MPI_LOGICAL have no Kind.
var kindTable = [Kinds]struct {
	name                  string
	goKind                reflect.Kind
	goType                string
	size, align, external uint8
	mpi                   string
}{
	0:     {"none", 0, "", 0, 0, 0, ""},
	Bool:  {"bool", reflect.Bool, "", 1, 1, 1, "MPI_C_BOOL MPI_CXX_BOOL"},
	Int8:  {"int8", reflect.Int8, "", 1, 1, 1, "MPI_SIGNED_CHAR MPI_INT8_T MPI_INTEGER1"},
	Int16: {"int16", reflect.Int16, "", 2, 2, 2, "MPI_SHORT MPI_INT16_T MPI_INTEGER2"},
	Int32: {"int32", reflect.Int32, "", 4, 4, 4, "MPI_INT MPI_INT32_T MPI_INTEGER MPI_INTEGER4"},
	Int64: {"int64", reflect.Int64, "", 8, 8, 8,
		"MPI_LONG_LONG_INT MPI_LONG_LONG MPI_INT64_T MPI_AINT MPI_OFFSET MPI_COUNT MPI_INTEGER8"},
	Uint8:   {"uint8", reflect.Uint8, "", 1, 1, 1, "MPI_UNSIGNED_CHAR MPI_UINT8_T"},
	Uint16:  {"uint16", reflect.Uint16, "", 2, 2, 2, "MPI_UNSIGNED_SHORT MPI_UINT16_T"},
	Uint32:  {"uint32", reflect.Uint32, "", 4, 4, 4, "MPI_UNSIGNED MPI_UINT32_T"},
	Uint64:  {"uint64", reflect.Uint64, "", 8, 8, 8, "MPI_UNSIGNED_LONG_LONG MPI_UINT64_T"},
	Float32: {"float32", reflect.Float32, "", 4, 4, 4, "MPI_FLOAT MPI_REAL MPI_REAL4"},
	Float64: {"float64", reflect.Float64, "", 8, 8, 8, "MPI_DOUBLE MPI_DOUBLE_PRECISION MPI_REAL8"},
	Complex64: {"complex64", reflect.Complex64, "", 8, 4, 8,
		"MPI_C_COMPLEX MPI_C_FLOAT_COMPLEX MPI_CXX_FLOAT_COMPLEX MPI_COMPLEX MPI_COMPLEX8"},
	Complex128: {"complex128", reflect.Complex128, "", 16, 8, 16,
		"MPI_C_DOUBLE_COMPLEX MPI_CXX_DOUBLE_COMPLEX MPI_DOUBLE_COMPLEX MPI_COMPLEX16"},
	Byte:     {"byte", 0, "", 1, 1, 1, "MPI_BYTE"},
	Packed:   {"packed", 0, "", 1, 1, 1, "MPI_PACKED"},
	Char:     {"char", 0, "", 1, 1, 1, "MPI_CHAR MPI_CHARACTER"},
	WChar:    {"wchar", 0, "", 4, 4, 2, "MPI_WCHAR"},
	Long:     {"long", 0, "", 8, 8, 4, "MPI_LONG"},
	ULong:    {"unsigned long", 0, "", 8, 8, 4, "MPI_UNSIGNED_LONG"},
	Float16:  {"float16", reflect.Uint16, "Float16", 2, 2, 2, ""},
	BFloat16: {"bfloat16", reflect.Uint16, "BFloat16", 2, 2, 2, ""},
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
