package reduction

import (
	"encoding/binary"
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

// TestAddHalf holds the sums with vector instructions against those in Go, for all pairs of special numbers and random ones.
func TestAddHalf(t *testing.T) {
	if !hasVector {
		t.Log("this machine has no vector form; the portable functions are held against themselves")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 100 {
		a, b := make([]byte, 2*n), make([]byte, 2*n)
		for i := range n {
			x, y := uint16(r.Uint32()), uint16(r.Uint32())
			if r.IntN(3) == 0 {
				x = []uint16{0, 0x8000, 1, 0x8001, 0x3ff, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0x80}[r.IntN(14)]
			}
			binary.NativeEndian.PutUint16(a[2*i:], x)
			binary.NativeEndian.PutUint16(b[2*i:], y)
		}
		whole := 2 * n / halfBlock * halfBlock
		checkHalf(t, "blocks of float16", addFloat16Blocks, sumFloat16, a[:whole], b[:whole],
			func(h uint16) float32 { return Float16(h).Float32() })
		checkHalf(t, "blocks of bfloat16", addBFloat16Blocks, sumBFloat16, a[:whole], b[:whole],
			func(h uint16) float32 { return BFloat16(h).Float32() })
		checkHalf(t, "float16", addFloat16, sumFloat16, a, b, func(h uint16) float32 { return Float16(h).Float32() })
		checkHalf(t, "bfloat16", addBFloat16, sumBFloat16, a, b, func(h uint16) float32 { return BFloat16(h).Float32() })
	}
}

func checkHalf(t *testing.T, name string, fast, slow Func, a, b []byte, value func(uint16) float32) {
	t.Helper()
	if !hasVector {
		fast = slow
	}
	got, want := make([]byte, len(a)), make([]byte, len(a))
	fast(got, a, b)
	slow(want, a, b)
	for i := 0; i < len(a); i += 2 {
		g, w := binary.NativeEndian.Uint16(got[i:]), binary.NativeEndian.Uint16(want[i:])
		if x, y := value(g), value(w); g != w && !(x != x && y != y) {
			t.Fatalf("%s: %#04x + %#04x is %#04x, want %#04x", name, binary.NativeEndian.Uint16(a[i:]),
				binary.NativeEndian.Uint16(b[i:]), g, w)
		}
	}
}
