//go:build !amd64

package reduction

// hasVector reports whether to prefer the functions below, which here are the portable ones.
const hasVector = false

func sumInt32(dst, a, b []byte)    { sum[int32](dst, a, b) }
func sumInt64(dst, a, b []byte)    { sum[int64](dst, a, b) }
func sumFloat32(dst, a, b []byte)  { sum[float32](dst, a, b) }
func sumFloat64(dst, a, b []byte)  { sum[float64](dst, a, b) }
func prodInt32(dst, a, b []byte)   { prod[int32](dst, a, b) }
func prodFloat32(dst, a, b []byte) { prod[float32](dst, a, b) }
func prodFloat64(dst, a, b []byte) { prod[float64](dst, a, b) }
func minInt32(dst, a, b []byte)    { minInt[int32](dst, a, b) }
func minInt64(dst, a, b []byte)    { minInt[int64](dst, a, b) }
func minFloat32(dst, a, b []byte)  { minFloat[float32](dst, a, b) }
func minFloat64(dst, a, b []byte)  { minFloat[float64](dst, a, b) }
func maxInt32(dst, a, b []byte)    { maxInt[int32](dst, a, b) }
func maxInt64(dst, a, b []byte)    { maxInt[int64](dst, a, b) }
func maxFloat32(dst, a, b []byte)  { maxFloat[float32](dst, a, b) }
func maxFloat64(dst, a, b []byte)  { maxFloat[float64](dst, a, b) }

func addFloat16Blocks(dst, a, b []byte)  { sumFloat16(dst, a, b) }
func addBFloat16Blocks(dst, a, b []byte) { sumBFloat16(dst, a, b) }
