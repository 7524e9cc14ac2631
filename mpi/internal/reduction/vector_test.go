package reduction

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// twins are the functions that exist in assembly on some machines, each beside the portable one that defines it.
var twins = []struct {
	name       string
	fast, slow Func
	kind       datatype.Kind
}{
	{"sumInt8", sumInt8, sum[int8], datatype.Int8},
	{"sumInt16", sumInt16, sum[int16], datatype.Int16},
	{"sumInt32", sumInt32, sum[int32], datatype.Int32},
	{"sumInt64", sumInt64, sum[int64], datatype.Int64},
	{"sumFloat32", sumFloat32, sum[float32], datatype.Float32},
	{"sumFloat64", sumFloat64, sum[float64], datatype.Float64},
	{"prodInt16", prodInt16, prod[int16], datatype.Int16},
	{"prodInt32", prodInt32, prod[int32], datatype.Int32},
	{"prodFloat32", prodFloat32, prod[float32], datatype.Float32},
	{"prodFloat64", prodFloat64, prod[float64], datatype.Float64},
	{"minInt8", minInt8, minInt[int8], datatype.Int8},
	{"minInt16", minInt16, minInt[int16], datatype.Int16},
	{"minInt32", minInt32, minInt[int32], datatype.Int32},
	{"minInt64", minInt64, minInt[int64], datatype.Int64},
	{"minUint8", minUint8, minInt[uint8], datatype.Uint8},
	{"minUint16", minUint16, minInt[uint16], datatype.Uint16},
	{"minUint32", minUint32, minInt[uint32], datatype.Uint32},
	{"minUint64", minUint64, minInt[uint64], datatype.Uint64},
	{"minFloat32", minFloat32, minFloat[float32], datatype.Float32},
	{"minFloat64", minFloat64, minFloat[float64], datatype.Float64},
	{"maxInt8", maxInt8, maxInt[int8], datatype.Int8},
	{"maxInt16", maxInt16, maxInt[int16], datatype.Int16},
	{"maxInt32", maxInt32, maxInt[int32], datatype.Int32},
	{"maxInt64", maxInt64, maxInt[int64], datatype.Int64},
	{"maxUint8", maxUint8, maxInt[uint8], datatype.Uint8},
	{"maxUint16", maxUint16, maxInt[uint16], datatype.Uint16},
	{"maxUint32", maxUint32, maxInt[uint32], datatype.Uint32},
	{"maxUint64", maxUint64, maxInt[uint64], datatype.Uint64},
	{"maxFloat32", maxFloat32, maxFloat[float32], datatype.Float32},
	{"maxFloat64", maxFloat64, maxFloat[float64], datatype.Float64},
	{"bandBlocks", bandBlocks, band, datatype.Uint8},
	{"bandVector", bandVector, band, datatype.Uint8},
	{"borBlocks", borBlocks, bor, datatype.Uint8},
	{"borVector", borVector, bor, datatype.Uint8},
	{"bxorBlocks", bxorBlocks, bxor, datatype.Uint8},
	{"bxorVector", bxorVector, bxor, datatype.Uint8},
	{"sumFloat16Blocks", sumFloat16Blocks, sumFloat16, datatype.Float16},
	{"sumFloat16Vector", sumFloat16Vector, sumFloat16, datatype.Float16},
	{"prodFloat16Blocks", prodFloat16Blocks, prodFloat16, datatype.Float16},
	{"prodFloat16Vector", prodFloat16Vector, prodFloat16, datatype.Float16},
	{"minFloat16Blocks", minFloat16Blocks, minFloat16, datatype.Float16},
	{"minFloat16Vector", minFloat16Vector, minFloat16, datatype.Float16},
	{"maxFloat16Blocks", maxFloat16Blocks, maxFloat16, datatype.Float16},
	{"maxFloat16Vector", maxFloat16Vector, maxFloat16, datatype.Float16},
	{"sumBFloat16Blocks", sumBFloat16Blocks, sumBFloat16, datatype.BFloat16},
	{"sumBFloat16Vector", sumBFloat16Vector, sumBFloat16, datatype.BFloat16},
	{"prodBFloat16Blocks", prodBFloat16Blocks, prodBFloat16, datatype.BFloat16},
	{"prodBFloat16Vector", prodBFloat16Vector, prodBFloat16, datatype.BFloat16},
	{"minBFloat16Blocks", minBFloat16Blocks, minBFloat16, datatype.BFloat16},
	{"minBFloat16Vector", minBFloat16Vector, minBFloat16, datatype.BFloat16},
	{"maxBFloat16Blocks", maxBFloat16Blocks, maxBFloat16, datatype.BFloat16},
	{"maxBFloat16Vector", maxBFloat16Vector, maxBFloat16, datatype.BFloat16},
}

// bits16, bits32 and bits64 are patterns at which integers or floating-point numbers of that width do something special:
// zeros, ones, the largest and smallest, infinities, NaNs that signal and that do not, the least numbers with and
// without a full mantissa.
var (
	bits16 = []uint16{0, 1 << 15, 1, math.MaxUint16, math.MaxInt16, 0x3c00, 0xbc00, 0x3f80, 0x7c00, 0xfc00, 0x7f80, 0xff80,
		0x7e00, 0x7c01, 0x7f81, 0x7fc0, 0x0400, 0x0080, 0x7bff, 0x7f7f, 0x8001}
	bits32 = []uint32{0, 1 << 31, 1, math.MaxUint32, math.MaxInt32, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
		0x7fc00000, 0xffc00001, 0x7f800001, 0x00800000, 0x7f7fffff, 0x80000001}
	bits64 = []uint64{0, 1 << 63, 1, math.MaxUint64, math.MaxInt64, 0x3ff << 52, 0xbff << 52, 0x7ff << 52, 0xfff << 52,
		0x7ff8 << 48, 0xfff8<<48 | 1, 0x7ff<<52 | 1, 1 << 52, 0x7fefffffffffffff, 1<<63 | 1}
)

// fill writes elements of a size, half of them special.
func fill(r *rand.Rand, b []byte, size int) {
	for ; len(b) >= size; b = b[size:] {
		switch special := r.IntN(2) == 0; {
		case size == 1:
			b[0] = byte(r.Uint32())
		case size == 2 && special:
			binary.NativeEndian.PutUint16(b, bits16[r.IntN(len(bits16))])
		case size == 2:
			binary.NativeEndian.PutUint16(b, uint16(r.Uint32()))
		case size == 4 && special:
			binary.NativeEndian.PutUint32(b, bits32[r.IntN(len(bits32))])
		case size == 4:
			binary.NativeEndian.PutUint32(b, r.Uint32())
		case special:
			binary.NativeEndian.PutUint64(b, bits64[r.IntN(len(bits64))])
		default:
			binary.NativeEndian.PutUint64(b, r.Uint64())
		}
	}
}

// same compares results to the bit, except that any NaN is as good as another where the package leaves its payload
// open.
func same(kind datatype.Kind, exact bool, x, y []byte) bool {
	if exact {
		return bytes.Equal(x, y)
	}
	n := kind.Size()
	for i := 0; i < len(x); i += n {
		p, q := value(kind, x[i:]), value(kind, y[i:])
		if !bytes.Equal(x[i:i+n], y[i:i+n]) && !(math.IsNaN(p) && math.IsNaN(q)) {
			return false
		}
	}
	return true
}

// value returns the floating-point number at the beginning of b.
func value(kind datatype.Kind, b []byte) float64 {
	switch kind {
	case datatype.Float16:
		return float64(Float16(binary.NativeEndian.Uint16(b)).Float32())
	case datatype.BFloat16:
		return float64(BFloat16(binary.NativeEndian.Uint16(b)).Float32())
	case datatype.Float32:
		return float64(math.Float32frombits(binary.NativeEndian.Uint32(b)))
	}
	return math.Float64frombits(binary.NativeEndian.Uint64(b))
}

func TestVectorIsPlain(t *testing.T) {
	if !hasVector {
		t.Log("this machine has no vector form; the portable functions are held against themselves")
	}
	for _, w := range twins {
		t.Run(w.name, func(t *testing.T) {
			if w.slow == nil || w.fast == nil {
				t.Fatal("a twin is missing")
			}
			// the standard leaves open which NaN a sum or a product is
			exact := !slices.Contains(floats, w.kind) && !slices.Contains(halves, w.kind) || w.name[0] == 'm'
			multiple := 1
			if strings.HasSuffix(w.name, "Blocks") {
				multiple = blockBytes / w.kind.Size()
			}
			for seed := range uint64(4) {
				checkTwin(t, rand.New(rand.NewPCG(seed, 1)), w.fast, w.slow, w.kind, exact, multiple)
			}
		})
	}
}

// checkTwin runs both functions for each length up to 300 elements that is a multiple, with each operand somewhere else in its
// cache line, and with the result in a third place or over the left operand.
func checkTwin(t *testing.T, r *rand.Rand, fast, slow Func, kind datatype.Kind, exact bool, multiple int) {
	if !hasVector {
		fast = slow
	}
	const guard = 0xa5
	size := kind.Size()
	for count := 0; count <= 300; count += multiple {
		n := count * size
		a, b := make([]byte, n+64)[r.IntN(64):], make([]byte, n+64)[r.IntN(64):]
		fill(r, a[:n], size)
		fill(r, b[:n], size)
		want := make([]byte, n)
		slow(want, a[:n], b[:n])

		room := bytes.Repeat([]byte{guard}, n+192)
		off := 64 + r.IntN(64)
		if r.IntN(2) == 0 {
			fast(room[off:off+n], a[:n], b[:n])
		} else {
			copy(room[off:], a[:n])
			fast(room[off:off+n], room[off:off+n], b[:n])
		}
		if got := room[off : off+n]; !same(kind, exact, got, want) {
			t.Fatalf("%d elements:\n a %x\n b %x\n got  %x\n want %x", count, a[:n], b[:n], got, want)
		}
		for i, v := range room {
			if (i < off || i >= off+n) && v != guard {
				t.Fatalf("%d elements: byte %d beside the result was written", count, i-off)
			}
		}
	}
}

func BenchmarkReduce(b *testing.B) {
	for _, c := range []struct {
		op   Op
		kind datatype.Kind
	}{{Sum, datatype.Float32}, {Sum, datatype.Float64}, {Sum, datatype.Int64}, {Min, datatype.Float32},
		{Max, datatype.Int64}, {Prod, datatype.Float64}, {Sum, datatype.Int16}, {Bor, datatype.Uint8},
		{Min, datatype.Uint8},
		{Max, datatype.Uint64}, {Sum, datatype.Float16}, {Prod, datatype.Float16}, {Min, datatype.Float16},
		{Sum, datatype.BFloat16}, {Prod, datatype.BFloat16}, {Max, datatype.BFloat16}} {
		for _, size := range []int{8, 4 << 10, 128 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%v/%v/size=%d", c.op, c.kind, size), func(b *testing.B) {
				f, ok := Lookup(c.op, c.kind)
				if !ok {
					b.Fatal("not defined")
				}
				dst, src := make([]byte, size), make([]byte, size)
				b.SetBytes(int64(size))
				for b.Loop() {
					f(dst, dst, src)
				}
			})
		}
	}
}
