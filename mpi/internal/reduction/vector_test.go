package reduction

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// twins are the functions that exist in assembly on some machines, each beside the portable one that defines it.
var twins = []struct {
	name       string
	fast, slow Func
	kind       datatype.Kind
}{
	{"sumInt32", sumInt32, sum[int32], datatype.Int32},
	{"sumInt64", sumInt64, sum[int64], datatype.Int64},
	{"sumFloat32", sumFloat32, sum[float32], datatype.Float32},
	{"sumFloat64", sumFloat64, sum[float64], datatype.Float64},
	{"prodInt32", prodInt32, prod[int32], datatype.Int32},
	{"prodFloat32", prodFloat32, prod[float32], datatype.Float32},
	{"prodFloat64", prodFloat64, prod[float64], datatype.Float64},
	{"minInt32", minInt32, minInt[int32], datatype.Int32},
	{"minInt64", minInt64, minInt[int64], datatype.Int64},
	{"minFloat32", minFloat32, minFloat[float32], datatype.Float32},
	{"minFloat64", minFloat64, minFloat[float64], datatype.Float64},
	{"maxInt32", maxInt32, maxInt[int32], datatype.Int32},
	{"maxInt64", maxInt64, maxInt[int64], datatype.Int64},
	{"maxFloat32", maxFloat32, maxFloat[float32], datatype.Float32},
	{"maxFloat64", maxFloat64, maxFloat[float64], datatype.Float64},
}

// bits32 and bits64 are patterns at which integers or floating-point numbers of that width do something special:
// zeros, ones, the largest and smallest, infinities, NaNs that signal and that do not, the least numbers with and
// without a full mantissa.
var (
	bits32 = []uint32{0, 1 << 31, 1, math.MaxUint32, math.MaxInt32, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
		0x7fc00000, 0xffc00001, 0x7f800001, 0x00800000, 0x7f7fffff, 0x80000001}
	bits64 = []uint64{0, 1 << 63, 1, math.MaxUint64, math.MaxInt64, 0x3ff << 52, 0xbff << 52, 0x7ff << 52, 0xfff << 52,
		0x7ff8 << 48, 0xfff8<<48 | 1, 0x7ff<<52 | 1, 1 << 52, 0x7fefffffffffffff, 1<<63 | 1}
)

// fill writes elements of a size, half of them special.
func fill(r *rand.Rand, b []byte, size int) {
	for ; len(b) >= size; b = b[size:] {
		switch special := r.IntN(2) == 0; {
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
		var p, q float64
		if kind == datatype.Float32 {
			p = float64(math.Float32frombits(binary.NativeEndian.Uint32(x[i:])))
			q = float64(math.Float32frombits(binary.NativeEndian.Uint32(y[i:])))
		} else {
			p, q = math.Float64frombits(binary.NativeEndian.Uint64(x[i:])), math.Float64frombits(binary.NativeEndian.Uint64(y[i:]))
		}
		if !bytes.Equal(x[i:i+n], y[i:i+n]) && !(math.IsNaN(p) && math.IsNaN(q)) {
			return false
		}
	}
	return true
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
			exact := w.kind != datatype.Float32 && w.kind != datatype.Float64 || w.name[0] == 'm'
			for seed := range uint64(4) {
				checkTwin(t, rand.New(rand.NewPCG(seed, 1)), w.fast, w.slow, w.kind, exact)
			}
		})
	}
}

// checkTwin runs both functions for each length up to 100 elements, with each operand somewhere else in its cache
// line, and with the result in a third place or over the left operand.
func checkTwin(t *testing.T, r *rand.Rand, fast, slow Func, kind datatype.Kind, exact bool) {
	if !hasVector {
		fast = slow
	}
	const guard = 0xa5
	size := kind.Size()
	for count := 0; count <= 100; count++ {
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
		{Sum, datatype.Float16}, {Sum, datatype.BFloat16}, {Max, datatype.BFloat16}} {
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
