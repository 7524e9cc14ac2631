package reduction

import (
	"math"
	"math/rand/v2"
	"testing"
)

// nearest16 returns the Float16 nearest to x by trying all, ties to an even number. x is finite.
func nearest16(x float64) Float16 {
	best, distance := Float16(0), math.Inf(1)
	for i := range 0x7c01 {
		h := Float16(i)
		v := float64(h.Float32())
		if i == 0x7c00 {
			v = 65536 // where infinity begins, for rounding
		}
		if d := math.Abs(math.Abs(x) - v); d < distance || d == distance && i%2 == 0 {
			best, distance = h, d
		}
	}
	if math.Signbit(x) {
		best |= 1 << 15
	}
	return best
}

// TestFloat16: every number survives a conversion there and back, and others are rounded to the nearest.
func TestFloat16(t *testing.T) {
	for i := range 1 << 16 {
		h := Float16(i)
		x := h.Float32()
		if got := ToFloat16(x); got != h && x == x || x != x && !math.IsNaN(float64(got.Float32())) {
			t.Fatalf("%#04x is %v, which is converted to %#04x", i, x, got)
		}
	}
	for want, h := range map[float32]Float16{1: 0x3c00, -2: 0xc000, 65504: 0x7bff, 1.0 / (1 << 24): 1, 6.103515625e-05: 0x400} {
		if got := h.Float32(); got != want {
			t.Errorf("%#04x is %v, want %v", uint16(h), got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		x := math.Float32frombits(uint32(r.IntN(2))<<31 | uint32(100+r.IntN(45))<<23 | uint32(r.IntN(1<<23)))
		if i%2 == 0 { // halfway between two
			x = (Float16(r.IntN(0x7bff)).Float32() + Float16(r.IntN(0x7bff)).Float32()) / 2
		}
		if got, want := ToFloat16(x), nearest16(float64(x)); got != want {
			t.Errorf("%v is converted to %#04x, want %#04x", x, uint16(got), uint16(want))
		}
	}
}

// TestBFloat16: as TestFloat16.
func TestBFloat16(t *testing.T) {
	for i := range 1 << 16 {
		h := BFloat16(i)
		x := h.Float32()
		if got := ToBFloat16(x); got != h && x == x || x != x && !math.IsNaN(float64(got.Float32())) {
			t.Fatalf("%#04x is %v, which is converted to %#04x", i, x, got)
		}
	}
	for bits, want := range map[uint32]BFloat16{0x3f808000: 0x3f80, 0x3f818000: 0x3f82, 0x3f808001: 0x3f81, 0x7f7fffff: 0x7f80,
		0x3f807fff: 0x3f80, 0x7f800001: 0x7fc0} {
		if got := ToBFloat16(math.Float32frombits(bits)); got != want {
			t.Errorf("%#x is converted to %#04x, want %#04x", bits, uint16(got), uint16(want))
		}
	}
}
