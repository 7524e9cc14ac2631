package datatype

const ops = lastOp - firstOp + 1

// portable is the table of the reductions that the standard defines, in portable Go.
var portable = [ops][kinds]Func{
	Sum - firstOp: {
		Int8: sum[int8], Int16: sum[int16], Int32: sum[int32], Int64: sum[int64],
		Uint8: sum[uint8], Uint16: sum[uint16], Uint32: sum[uint32], Uint64: sum[uint64],
		Float32: sum[float32], Float64: sum[float64], Complex64: sum[complex64], Complex128: sum[complex128],
	},
	Prod - firstOp: {
		Int8: prod[int8], Int16: prod[int16], Int32: prod[int32], Int64: prod[int64],
		Uint8: prod[uint8], Uint16: prod[uint16], Uint32: prod[uint32], Uint64: prod[uint64],
		Float32: prod[float32], Float64: prod[float64], Complex64: prod[complex64], Complex128: prod[complex128],
	},
	Min - firstOp: {
		Int8: minInt[int8], Int16: minInt[int16], Int32: minInt[int32], Int64: minInt[int64],
		Uint8: minInt[uint8], Uint16: minInt[uint16], Uint32: minInt[uint32], Uint64: minInt[uint64],
		Float32: minFloat[float32], Float64: minFloat[float64],
	},
	Max - firstOp: {
		Int8: maxInt[int8], Int16: maxInt[int16], Int32: maxInt[int32], Int64: maxInt[int64],
		Uint8: maxInt[uint8], Uint16: maxInt[uint16], Uint32: maxInt[uint32], Uint64: maxInt[uint64],
		Float32: maxFloat[float32], Float64: maxFloat[float64],
	},
	Band - firstOp: {
		Bool: band, Int8: band, Int16: band, Int32: band, Int64: band,
		Uint8: band, Uint16: band, Uint32: band, Uint64: band,
	},
	Bor - firstOp: {
		Bool: bor, Int8: bor, Int16: bor, Int32: bor, Int64: bor,
		Uint8: bor, Uint16: bor, Uint32: bor, Uint64: bor,
	},
	Bxor - firstOp: {
		Bool: bxor, Int8: bxor, Int16: bxor, Int32: bxor, Int64: bxor,
		Uint8: bxor, Uint16: bxor, Uint32: bxor, Uint64: bxor,
	},
	Land - firstOp: {
		Bool: land[uint8], Int8: land[int8], Int16: land[int16], Int32: land[int32], Int64: land[int64],
		Uint8: land[uint8], Uint16: land[uint16], Uint32: land[uint32], Uint64: land[uint64],
	},
	Lor - firstOp: {
		Bool: lor[uint8], Int8: lor[int8], Int16: lor[int16], Int32: lor[int32], Int64: lor[int64],
		Uint8: lor[uint8], Uint16: lor[uint16], Uint32: lor[uint32], Uint64: lor[uint64],
	},
	Lxor - firstOp: {
		Bool: lxor[uint8], Int8: lxor[int8], Int16: lxor[int16], Int32: lxor[int32], Int64: lxor[int64],
		Uint8: lxor[uint8], Uint16: lxor[uint16], Uint32: lxor[uint32], Uint64: lxor[uint64],
	},
}

// vector is the table of the reductions with vector instructions, used if the machine has them. Addition and
// the lower half of a product are the same for signed and unsigned integers, and a complex number is added as two numbers.
var vector = [ops][kinds]Func{
	Sum - firstOp: {
		Int32: sumInt32, Int64: sumInt64, Uint32: sumInt32, Uint64: sumInt64,
		Float32: sumFloat32, Float64: sumFloat64, Complex64: sumFloat32, Complex128: sumFloat64,
	},
	Prod - firstOp: {Int32: prodInt32, Uint32: prodInt32, Float32: prodFloat32, Float64: prodFloat64},
	Min - firstOp:  {Int32: minInt32, Int64: minInt64, Float32: minFloat32, Float64: minFloat64},
	Max - firstOp:  {Int32: maxInt32, Int64: maxInt64, Float32: maxFloat32, Float64: maxFloat64},
}
