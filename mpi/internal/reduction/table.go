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
//
// Rows are written out, and not made by functions that they share: so the table is data of the
// program, and costs no time when a process starts.
var table = [datatype.Kinds]row{
	datatype.Bool: {
		portable: functions{Band - firstOp: band, bor, bxor, Land - firstOp: land[uint8], lor[uint8], lxor[uint8]},
		vector:   functions{Band - firstOp: bandVector, borVector, bxorVector},
	},
	datatype.Byte: {
		portable: functions{Band - firstOp: band, bor, bxor},
		vector:   functions{Band - firstOp: bandVector, borVector, bxorVector},
	},
	datatype.Int8: {
		portable: functions{sum[int8], minInt[int8], maxInt[int8], prod[int8], Band - firstOp: band, bor, bxor,
			Land - firstOp: land[int8], lor[int8], lxor[int8]},
		vector: functions{sumInt8, minInt8, maxInt8, Band - firstOp: bandVector, borVector, bxorVector},
		pairs:  pairFunctions{minLoc[int8, int32], maxLoc[int8, int32], minLoc[int8, int64], maxLoc[int8, int64]},
	},
	datatype.Int16: {
		portable: functions{sum[int16], minInt[int16], maxInt[int16], prod[int16], Band - firstOp: band, bor, bxor,
			Land - firstOp: land[int16], lor[int16], lxor[int16]},
		vector: functions{sumInt16, minInt16, maxInt16, prodInt16, Band - firstOp: bandVector, borVector, bxorVector},
		pairs:  pairFunctions{minLoc[int16, int32], maxLoc[int16, int32], minLoc[int16, int64], maxLoc[int16, int64]},
	},
	datatype.Int32: {
		portable: functions{sum[int32], minInt[int32], maxInt[int32], prod[int32], Band - firstOp: band, bor, bxor,
			Land - firstOp: land[int32], lor[int32], lxor[int32]},
		vector: functions{sumInt32, minInt32, maxInt32, prodInt32, Band - firstOp: bandVector, borVector, bxorVector},
		pairs:  pairFunctions{minLoc[int32, int32], maxLoc[int32, int32], minLoc[int32, int64], maxLoc[int32, int64]},
	},
	datatype.Int64: {
		portable: functions{sum[int64], minInt[int64], maxInt[int64], prod[int64], Band - firstOp: band, bor, bxor,
			Land - firstOp: land[int64], lor[int64], lxor[int64]},
		vector: functions{sumInt64, minInt64, maxInt64, Band - firstOp: bandVector, borVector, bxorVector},
		pairs:  pairFunctions{minLoc[int64, int32], maxLoc[int64, int32], minLoc[int64, int64], maxLoc[int64, int64]},
	},
	datatype.Long: {
		portable: functions{sum[int64], minInt[int64], maxInt[int64], prod[int64], Band - firstOp: band, bor, bxor,
			Land - firstOp: land[int64], lor[int64], lxor[int64]},
		vector: functions{sumInt64, minInt64, maxInt64, Band - firstOp: bandVector, borVector, bxorVector},
	},
	datatype.Uint8: {
		portable: functions{sum[uint8], minInt[uint8], maxInt[uint8], prod[uint8], Band - firstOp: band, bor, bxor,
			Land - firstOp: land[uint8], lor[uint8], lxor[uint8]},
		vector: functions{sumInt8, minUint8, maxUint8, Band - firstOp: bandVector, borVector, bxorVector},
		pairs:  pairFunctions{minLoc[uint8, int32], maxLoc[uint8, int32], minLoc[uint8, int64], maxLoc[uint8, int64]},
	},
	datatype.Uint16: {
		portable: functions{sum[uint16], minInt[uint16], maxInt[uint16], prod[uint16], Band - firstOp: band, bor, bxor,
			Land - firstOp: land[uint16], lor[uint16], lxor[uint16]},
		vector: functions{sumInt16, minUint16, maxUint16, prodInt16, Band - firstOp: bandVector, borVector, bxorVector},
		pairs:  pairFunctions{minLoc[uint16, int32], maxLoc[uint16, int32], minLoc[uint16, int64], maxLoc[uint16, int64]},
	},
	datatype.Uint32: {
		portable: functions{sum[uint32], minInt[uint32], maxInt[uint32], prod[uint32], Band - firstOp: band, bor, bxor,
			Land - firstOp: land[uint32], lor[uint32], lxor[uint32]},
		vector: functions{sumInt32, minUint32, maxUint32, prodInt32, Band - firstOp: bandVector, borVector, bxorVector},
		pairs:  pairFunctions{minLoc[uint32, int32], maxLoc[uint32, int32], minLoc[uint32, int64], maxLoc[uint32, int64]},
	},
	datatype.Uint64: {
		portable: functions{sum[uint64], minInt[uint64], maxInt[uint64], prod[uint64], Band - firstOp: band, bor, bxor,
			Land - firstOp: land[uint64], lor[uint64], lxor[uint64]},
		vector: functions{sumInt64, minUint64, maxUint64, Band - firstOp: bandVector, borVector, bxorVector},
		pairs:  pairFunctions{minLoc[uint64, int32], maxLoc[uint64, int32], minLoc[uint64, int64], maxLoc[uint64, int64]},
	},
	datatype.ULong: {
		portable: functions{sum[uint64], minInt[uint64], maxInt[uint64], prod[uint64], Band - firstOp: band, bor, bxor,
			Land - firstOp: land[uint64], lor[uint64], lxor[uint64]},
		vector: functions{sumInt64, minUint64, maxUint64, Band - firstOp: bandVector, borVector, bxorVector},
	},
	datatype.Float32: {
		portable: functions{sum[float32], minFloat[float32], maxFloat[float32], prod[float32]},
		vector:   functions{sumFloat32, minFloat32, maxFloat32, prodFloat32},
		pairs:    pairFunctions{minLoc[float32, int32], maxLoc[float32, int32], minLoc[float32, int64], maxLoc[float32, int64]},
	},
	datatype.Float64: {
		portable: functions{sum[float64], minFloat[float64], maxFloat[float64], prod[float64]},
		vector:   functions{sumFloat64, minFloat64, maxFloat64, prodFloat64},
		pairs:    pairFunctions{minLoc[float64, int32], maxLoc[float64, int32], minLoc[float64, int64], maxLoc[float64, int64]},
	},
	datatype.Complex64: {
		portable: functions{Sum - firstOp: sum[complex64], Prod - firstOp: prod[complex64]},
		vector:   functions{sumFloat32},
	},
	datatype.Complex128: {
		portable: functions{Sum - firstOp: sum[complex128], Prod - firstOp: prod[complex128]},
		vector:   functions{sumFloat64},
	},
	datatype.Float16: {
		portable: functions{sumFloat16, minFloat16, maxFloat16, prodFloat16},
		vector:   functions{sumFloat16Vector, minFloat16Vector, maxFloat16Vector, prodFloat16Vector},
	},
	datatype.BFloat16: {
		portable: functions{sumBFloat16, minBFloat16, maxBFloat16, prodBFloat16},
		vector:   functions{sumBFloat16Vector, minBFloat16Vector, maxBFloat16Vector, prodBFloat16Vector},
	},
}
