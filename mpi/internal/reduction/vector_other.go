//go:build !amd64 && !arm64

package reduction

// hasVector reports whether to prefer the functions below, which here are the portable ones.
const hasVector = false

func sumInt8(dst, a, b []byte)     { sum[int8](dst, a, b) }
func sumInt16(dst, a, b []byte)    { sum[int16](dst, a, b) }
func sumInt32(dst, a, b []byte)    { sum[int32](dst, a, b) }
func sumInt64(dst, a, b []byte)    { sum[int64](dst, a, b) }
func sumFloat32(dst, a, b []byte)  { sum[float32](dst, a, b) }
func sumFloat64(dst, a, b []byte)  { sum[float64](dst, a, b) }
func prodInt16(dst, a, b []byte)   { prod[int16](dst, a, b) }
func prodInt32(dst, a, b []byte)   { prod[int32](dst, a, b) }
func prodFloat32(dst, a, b []byte) { prod[float32](dst, a, b) }
func prodFloat64(dst, a, b []byte) { prod[float64](dst, a, b) }
func minInt8(dst, a, b []byte)     { minInt[int8](dst, a, b) }
func minInt16(dst, a, b []byte)    { minInt[int16](dst, a, b) }
func minInt32(dst, a, b []byte)    { minInt[int32](dst, a, b) }
func minInt64(dst, a, b []byte)    { minInt[int64](dst, a, b) }
func minUint8(dst, a, b []byte)    { minInt[uint8](dst, a, b) }
func minUint16(dst, a, b []byte)   { minInt[uint16](dst, a, b) }
func minUint32(dst, a, b []byte)   { minInt[uint32](dst, a, b) }
func minUint64(dst, a, b []byte)   { minInt[uint64](dst, a, b) }
func minFloat32(dst, a, b []byte)  { minFloat[float32](dst, a, b) }
func minFloat64(dst, a, b []byte)  { minFloat[float64](dst, a, b) }
func maxInt8(dst, a, b []byte)     { maxInt[int8](dst, a, b) }
func maxInt16(dst, a, b []byte)    { maxInt[int16](dst, a, b) }
func maxInt32(dst, a, b []byte)    { maxInt[int32](dst, a, b) }
func maxInt64(dst, a, b []byte)    { maxInt[int64](dst, a, b) }
func maxUint8(dst, a, b []byte)    { maxInt[uint8](dst, a, b) }
func maxUint16(dst, a, b []byte)   { maxInt[uint16](dst, a, b) }
func maxUint32(dst, a, b []byte)   { maxInt[uint32](dst, a, b) }
func maxUint64(dst, a, b []byte)   { maxInt[uint64](dst, a, b) }
func maxFloat32(dst, a, b []byte)  { maxFloat[float32](dst, a, b) }
func maxFloat64(dst, a, b []byte)  { maxFloat[float64](dst, a, b) }

func bandBlocks(dst, a, b []byte)         { band(dst, a, b) }
func borBlocks(dst, a, b []byte)          { bor(dst, a, b) }
func bxorBlocks(dst, a, b []byte)         { bxor(dst, a, b) }
func sumFloat16Blocks(dst, a, b []byte)   { sumFloat16(dst, a, b) }
func prodFloat16Blocks(dst, a, b []byte)  { prodFloat16(dst, a, b) }
func minFloat16Blocks(dst, a, b []byte)   { minFloat16(dst, a, b) }
func maxFloat16Blocks(dst, a, b []byte)   { maxFloat16(dst, a, b) }
func sumBFloat16Blocks(dst, a, b []byte)  { sumBFloat16(dst, a, b) }
func prodBFloat16Blocks(dst, a, b []byte) { prodBFloat16(dst, a, b) }
func minBFloat16Blocks(dst, a, b []byte)  { minBFloat16(dst, a, b) }
func maxBFloat16Blocks(dst, a, b []byte)  { maxBFloat16(dst, a, b) }
