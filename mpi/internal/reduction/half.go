package reduction

import "math"

// Numbers of 16 bits are computed as float32 and rounded to the nearest, ties to even, after each operation. So a sum of many
// has the error of each step: programs that add thousands convert to float32 first.

// half is a number of 16 bits. Its methods convert it.
type half interface {
	Float16 | BFloat16
	Float32() float32
}

// Float16 is a number in the format binary16 of IEEE 754: 5 bits of exponent, 10 of fraction.
type Float16 uint16

// BFloat16 is the upper half of a float32: 8 bits of exponent, 7 of fraction.
type BFloat16 uint16

// Float32 returns the number.
func (h Float16) Float32() float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exponent {
	case 0:
		x := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(x))
	case 0x1f:
		if fraction != 0 {
			fraction |= 0x200 // a NaN is quiet
		}
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// ToFloat16 returns the nearest Float16.
func ToFloat16(x float32) Float16 {
	b := math.Float32bits(x)
	sign, magnitude := Float16(b>>16&0x8000), b&^(1<<31)
	switch {
	case magnitude > 0xff<<23:
		return sign | 0x7e00 | Float16(magnitude>>13&0x3ff)
	case magnitude >= 0x477ff000: // it is rounded to 65,536, which is too large
		return sign | 0x7c00
	case magnitude < 0x38800000: // less than the least normal number: a multiple of 2^-24
		return sign | Float16(math.RoundToEven(float64(math.Float32frombits(magnitude))*(1<<24)))
	}
	odd := magnitude >> 13 & 1
	return sign | Float16((magnitude-(127-15)<<23+0xfff+odd)>>13)
}

// Float32 returns the number.
func (h BFloat16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBFloat16 returns the nearest BFloat16.
func ToBFloat16(x float32) BFloat16 {
	b := math.Float32bits(x)
	if b&^(1<<31) > 0xff<<23 {
		return BFloat16(b>>16) | 0x40 // a NaN is quiet
	}
	return BFloat16((b + 0x7fff + b>>16&1) >> 16)
}

// combineHalf combines elements as float32, by f, and rounds the results by to.
func combineHalf[T half](dst, a, b []byte, to func(float32) T, f func(x, y float32) float32) {
	d, x, y := elements[T](dst, a, b)
	for i := range d {
		d[i] = to(f(x[i].Float32(), y[i].Float32()))
	}
}

func add32(x, y float32) float32      { return x + y }
func multiply32(x, y float32) float32 { return x * y }

// min32 and max32 return the NaN with all bits set if an operand is NaN, as for the longer numbers.
func min32(x, y float32) float32 { return orNaN(min(x, y)) }
func max32(x, y float32) float32 { return orNaN(max(x, y)) }

func orNaN(x float32) float32 {
	if x != x {
		return math.Float32frombits(math.MaxUint32)
	}
	return x
}

func sumFloat16(dst, a, b []byte)   { combineHalf(dst, a, b, ToFloat16, add32) }
func prodFloat16(dst, a, b []byte)  { combineHalf(dst, a, b, ToFloat16, multiply32) }
func minFloat16(dst, a, b []byte)   { combineHalf(dst, a, b, ToFloat16, min32) }
func maxFloat16(dst, a, b []byte)   { combineHalf(dst, a, b, ToFloat16, max32) }
func sumBFloat16(dst, a, b []byte)  { combineHalf(dst, a, b, ToBFloat16, add32) }
func prodBFloat16(dst, a, b []byte) { combineHalf(dst, a, b, ToBFloat16, multiply32) }
func minBFloat16(dst, a, b []byte)  { combineHalf(dst, a, b, ToBFloat16, min32) }
func maxBFloat16(dst, a, b []byte)  { combineHalf(dst, a, b, ToBFloat16, max32) }

func sumFloat16Vector(dst, a, b []byte)   { combineBlocks(dst, a, b, sumFloat16Blocks, sumFloat16) }
func prodFloat16Vector(dst, a, b []byte)  { combineBlocks(dst, a, b, prodFloat16Blocks, prodFloat16) }
func minFloat16Vector(dst, a, b []byte)   { combineBlocks(dst, a, b, minFloat16Blocks, minFloat16) }
func maxFloat16Vector(dst, a, b []byte)   { combineBlocks(dst, a, b, maxFloat16Blocks, maxFloat16) }
func sumBFloat16Vector(dst, a, b []byte)  { combineBlocks(dst, a, b, sumBFloat16Blocks, sumBFloat16) }
func prodBFloat16Vector(dst, a, b []byte) { combineBlocks(dst, a, b, prodBFloat16Blocks, prodBFloat16) }
func minBFloat16Vector(dst, a, b []byte)  { combineBlocks(dst, a, b, minBFloat16Blocks, minBFloat16) }
func maxBFloat16Vector(dst, a, b []byte)  { combineBlocks(dst, a, b, maxBFloat16Blocks, maxBFloat16) }
