package reduction

import "github.com/ibrun/ibrun/mpi/internal/datatype"

const ops = lastOp - firstOp + 1

// functions are reductions of elements of one kind, indexed by an Op less firstOp. The first are
// Sum, Min, Max and Prod. nil stands for an operation that is not defined.
type functions [ops]Func

// row has the reductions of elements of one kind: those that the standard defines, in portable Go,
// and those with vector instructions, which are used if the machine has these.
type row struct {
	portable, vector functions
	pairs            pairFunctions
}

// table has the row of each kind. Addition and the lower half of a product are the same for signed
// and unsigned integers, and a complex number is added as two numbers. Long and ULong are kinds of
// their own only because of their external form.
var table = [datatype.Kinds]row{
	datatype.Bool: withBitwise(row{portable: logical[uint8](functions{})}),
	datatype.Byte: withBitwise(row{}),

	datatype.Int8:   integerRow[int8](functions{sumInt8, minInt8, maxInt8}),
	datatype.Int16:  integerRow[int16](functions{sumInt16, minInt16, maxInt16, prodInt16}),
	datatype.Int32:  integerRow[int32](functions{sumInt32, minInt32, maxInt32, prodInt32}),
	datatype.Int64:  integerRow[int64](functions{sumInt64, minInt64, maxInt64}),
	datatype.Long:   integerRow[int64](functions{sumInt64, minInt64, maxInt64}),
	datatype.Uint8:  integerRow[uint8](functions{sumInt8, minUint8, maxUint8}),
	datatype.Uint16: integerRow[uint16](functions{sumInt16, minUint16, maxUint16, prodInt16}),
	datatype.Uint32: integerRow[uint32](functions{sumInt32, minUint32, maxUint32, prodInt32}),
	datatype.Uint64: integerRow[uint64](functions{sumInt64, minUint64, maxUint64}),
	datatype.ULong:  integerRow[uint64](functions{sumInt64, minUint64, maxUint64}),

	datatype.Float32:    floatRow[float32](functions{sumFloat32, minFloat32, maxFloat32, prodFloat32}),
	datatype.Float64:    floatRow[float64](functions{sumFloat64, minFloat64, maxFloat64, prodFloat64}),
	datatype.Complex64:  complexRow[complex64](functions{sumFloat32}),
	datatype.Complex128: complexRow[complex128](functions{sumFloat64}),

	datatype.Float16: {
		portable: functions{sumFloat16, minFloat16, maxFloat16, prodFloat16},
		vector:   functions{sumFloat16Vector, minFloat16Vector, maxFloat16Vector, prodFloat16Vector},
	},
	datatype.BFloat16: {
		portable: functions{sumBFloat16, minBFloat16, maxBFloat16, prodBFloat16},
		vector:   functions{sumBFloat16Vector, minBFloat16Vector, maxBFloat16Vector, prodBFloat16Vector},
	},
}

func integerRow[T integer](vector functions) row {
	portable := logical[T](functions{sum[T], minInt[T], maxInt[T], prod[T]})
	return withBitwise(row{portable, vector, pairsOf[T]()})
}

func floatRow[T floating](vector functions) row {
	return row{functions{sum[T], minFloat[T], maxFloat[T], prod[T]}, vector, pairsOf[T]()}
}

func complexRow[T complex64 | complex128](vector functions) row {
	return row{portable: functions{Sum - firstOp: sum[T], Prod - firstOp: prod[T]}, vector: vector}
}

// logical returns f with the logical operations.
func logical[T integer](f functions) functions {
	f[Land-firstOp], f[Lor-firstOp], f[Lxor-firstOp] = land[T], lor[T], lxor[T]
	return f
}

// withBitwise returns r with the bitwise operations, which are the same for all kinds.
func withBitwise(r row) row {
	r.portable[Band-firstOp], r.portable[Bor-firstOp], r.portable[Bxor-firstOp] = band, bor, bxor
	r.vector[Band-firstOp], r.vector[Bor-firstOp], r.vector[Bxor-firstOp] = bandVector, borVector, bxorVector
	return r
}
