package reduction

import "github.com/ibrun/ibrun/mpi/internal/datatype"

const ops = lastOp - firstOp + 1

// portable is the table of the reductions that the standard defines, in portable Go.
var portable = [ops][datatype.Kinds]Func{
	Sum - firstOp: {
		datatype.Int8: sum[int8], datatype.Int16: sum[int16], datatype.Int32: sum[int32], datatype.Int64: sum[int64],
		datatype.Uint8: sum[uint8], datatype.Uint16: sum[uint16], datatype.Uint32: sum[uint32], datatype.Uint64: sum[uint64],
		datatype.Float32: sum[float32], datatype.Float64: sum[float64],
		datatype.Complex64: sum[complex64], datatype.Complex128: sum[complex128],
		datatype.Float16: sumFloat16, datatype.BFloat16: sumBFloat16,
	},
	Prod - firstOp: {
		datatype.Int8: prod[int8], datatype.Int16: prod[int16], datatype.Int32: prod[int32], datatype.Int64: prod[int64],
		datatype.Uint8: prod[uint8], datatype.Uint16: prod[uint16], datatype.Uint32: prod[uint32], datatype.Uint64: prod[uint64],
		datatype.Float32: prod[float32], datatype.Float64: prod[float64],
		datatype.Complex64: prod[complex64], datatype.Complex128: prod[complex128],
		datatype.Float16: prodFloat16, datatype.BFloat16: prodBFloat16,
	},
	Min - firstOp: {
		datatype.Int8: minInt[int8], datatype.Int16: minInt[int16], datatype.Int32: minInt[int32], datatype.Int64: minInt[int64],
		datatype.Uint8: minInt[uint8], datatype.Uint16: minInt[uint16],
		datatype.Uint32: minInt[uint32], datatype.Uint64: minInt[uint64],
		datatype.Float32: minFloat[float32], datatype.Float64: minFloat[float64],
		datatype.Float16: minFloat16, datatype.BFloat16: minBFloat16,
	},
	Max - firstOp: {
		datatype.Int8: maxInt[int8], datatype.Int16: maxInt[int16], datatype.Int32: maxInt[int32], datatype.Int64: maxInt[int64],
		datatype.Uint8: maxInt[uint8], datatype.Uint16: maxInt[uint16],
		datatype.Uint32: maxInt[uint32], datatype.Uint64: maxInt[uint64],
		datatype.Float32: maxFloat[float32], datatype.Float64: maxFloat[float64],
		datatype.Float16: maxFloat16, datatype.BFloat16: maxBFloat16,
	},
	Band - firstOp: {
		datatype.Bool: band, datatype.Byte: band,
		datatype.Int8: band, datatype.Int16: band, datatype.Int32: band, datatype.Int64: band,
		datatype.Uint8: band, datatype.Uint16: band, datatype.Uint32: band, datatype.Uint64: band,
	},
	Bor - firstOp: {
		datatype.Bool: bor, datatype.Byte: bor,
		datatype.Int8: bor, datatype.Int16: bor, datatype.Int32: bor, datatype.Int64: bor,
		datatype.Uint8: bor, datatype.Uint16: bor, datatype.Uint32: bor, datatype.Uint64: bor,
	},
	Bxor - firstOp: {
		datatype.Bool: bxor, datatype.Byte: bxor,
		datatype.Int8: bxor, datatype.Int16: bxor, datatype.Int32: bxor, datatype.Int64: bxor,
		datatype.Uint8: bxor, datatype.Uint16: bxor, datatype.Uint32: bxor, datatype.Uint64: bxor,
	},
	Land - firstOp: {
		datatype.Bool: land[uint8], datatype.Int8: land[int8], datatype.Int16: land[int16],
		datatype.Int32: land[int32], datatype.Int64: land[int64],
		datatype.Uint8: land[uint8], datatype.Uint16: land[uint16], datatype.Uint32: land[uint32], datatype.Uint64: land[uint64],
	},
	Lor - firstOp: {
		datatype.Bool: lor[uint8], datatype.Int8: lor[int8], datatype.Int16: lor[int16],
		datatype.Int32: lor[int32], datatype.Int64: lor[int64],
		datatype.Uint8: lor[uint8], datatype.Uint16: lor[uint16], datatype.Uint32: lor[uint32], datatype.Uint64: lor[uint64],
	},
	Lxor - firstOp: {
		datatype.Bool: lxor[uint8], datatype.Int8: lxor[int8], datatype.Int16: lxor[int16],
		datatype.Int32: lxor[int32], datatype.Int64: lxor[int64],
		datatype.Uint8: lxor[uint8], datatype.Uint16: lxor[uint16], datatype.Uint32: lxor[uint32], datatype.Uint64: lxor[uint64],
	},
}

// vector is the table of the reductions with vector instructions, used if the machine has them. Addition and
// the lower half of a product are the same for signed and unsigned integers, and a complex number is added as two numbers.
var vector = [ops][datatype.Kinds]Func{
	Sum - firstOp: {
		datatype.Int8: sumInt8, datatype.Uint8: sumInt8, datatype.Int16: sumInt16, datatype.Uint16: sumInt16,
		datatype.Int32: sumInt32, datatype.Uint32: sumInt32, datatype.Int64: sumInt64, datatype.Uint64: sumInt64,
		datatype.Float32: sumFloat32, datatype.Float64: sumFloat64, datatype.Complex64: sumFloat32,
		datatype.Complex128: sumFloat64, datatype.Float16: sumFloat16Vector, datatype.BFloat16: sumBFloat16Vector,
	},
	Prod - firstOp: {
		datatype.Int16: prodInt16, datatype.Uint16: prodInt16, datatype.Int32: prodInt32, datatype.Uint32: prodInt32,
		datatype.Float32: prodFloat32, datatype.Float64: prodFloat64, datatype.Float16: prodFloat16Vector,
		datatype.BFloat16: prodBFloat16Vector,
	},
	Min - firstOp: {
		datatype.Int8: minInt8, datatype.Int16: minInt16, datatype.Int32: minInt32, datatype.Int64: minInt64,
		datatype.Uint8: minUint8, datatype.Uint16: minUint16, datatype.Uint32: minUint32, datatype.Uint64: minUint64,
		datatype.Float32: minFloat32, datatype.Float64: minFloat64, datatype.Float16: minFloat16Vector,
		datatype.BFloat16: minBFloat16Vector,
	},
	Max - firstOp: {
		datatype.Int8: maxInt8, datatype.Int16: maxInt16, datatype.Int32: maxInt32, datatype.Int64: maxInt64,
		datatype.Uint8: maxUint8, datatype.Uint16: maxUint16, datatype.Uint32: maxUint32, datatype.Uint64: maxUint64,
		datatype.Float32: maxFloat32, datatype.Float64: maxFloat64, datatype.Float16: maxFloat16Vector,
		datatype.BFloat16: maxBFloat16Vector,
	},
	Band - firstOp: {
		datatype.Bool: bandVector, datatype.Byte: bandVector,
		datatype.Int8: bandVector, datatype.Int16: bandVector, datatype.Int32: bandVector, datatype.Int64: bandVector,
		datatype.Uint8: bandVector, datatype.Uint16: bandVector, datatype.Uint32: bandVector, datatype.Uint64: bandVector,
	},
	Bor - firstOp: {
		datatype.Bool: borVector, datatype.Byte: borVector,
		datatype.Int8: borVector, datatype.Int16: borVector, datatype.Int32: borVector, datatype.Int64: borVector,
		datatype.Uint8: borVector, datatype.Uint16: borVector, datatype.Uint32: borVector, datatype.Uint64: borVector,
	},
	Bxor - firstOp: {
		datatype.Bool: bxorVector, datatype.Byte: bxorVector,
		datatype.Int8: bxorVector, datatype.Int16: bxorVector, datatype.Int32: bxorVector, datatype.Int64: bxorVector,
		datatype.Uint8: bxorVector, datatype.Uint16: bxorVector, datatype.Uint32: bxorVector, datatype.Uint64: bxorVector,
	},
}
