package reduction

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// each class of operations in the standard, and the kinds on which it is defined there or, for bool, here.
var defined = []struct {
	ops   []Op
	kinds []datatype.Kind
}{
	{[]Op{Sum, Prod}, slices.Concat(integers, floats, halves, complexes)},
	{[]Op{Min, Max}, slices.Concat(integers, floats, halves)},
	{[]Op{Band, Bor, Bxor}, append([]datatype.Kind{datatype.Bool, datatype.Byte}, integers...)},
	{[]Op{Land, Lor, Lxor}, append([]datatype.Kind{datatype.Bool}, integers...)},
}

var (
	integers = []datatype.Kind{datatype.Int8, datatype.Int16, datatype.Int32, datatype.Int64,
		datatype.Uint8, datatype.Uint16, datatype.Uint32, datatype.Uint64, datatype.Long, datatype.ULong}
	floats    = []datatype.Kind{datatype.Float32, datatype.Float64}
	halves    = []datatype.Kind{datatype.Float16, datatype.BFloat16}
	complexes = []datatype.Kind{datatype.Complex64, datatype.Complex128}
)

func TestLookupIsDefined(t *testing.T) {
	want := map[Op]map[datatype.Kind]bool{}
	for _, d := range defined {
		for _, op := range d.ops {
			want[op] = map[datatype.Kind]bool{}
			for _, k := range d.kinds {
				want[op][k] = true
			}
		}
	}
	for op := range 256 {
		for k := range 256 {
			f, ok := Lookup(Op(op), datatype.Kind(k))
			if ok != want[Op(op)][datatype.Kind(k)] || ok != (f != nil) {
				t.Errorf("Lookup(%v, %v): %v", Op(op), datatype.Kind(k), ok)
			}
		}
	}
}

// encode writes values as elements.
func encode(t *testing.T, values any) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.NativeEndian, values)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestResults(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	zero, negative := float32(0), float32(math.Copysign(0, -1))
	all := math.Float32frombits(math.MaxUint32)
	for _, c := range []struct {
		op         Op
		kind       datatype.Kind
		a, b, want any
	}{
		{Sum, datatype.Int8, []int8{127, -128}, []int8{1, -1}, []int8{-128, 127}},
		{Sum, datatype.Uint16, []uint16{65535, 5}, []uint16{1, 6}, []uint16{0, 11}},
		{Sum, datatype.Uint32, []uint32{1 << 31, 5}, []uint32{1 << 31, 6}, []uint32{0, 11}},
		{Sum, datatype.Complex64, []complex64{1 + 2i}, []complex64{3 - 5i}, []complex64{4 - 3i}},
		{Sum, datatype.Complex128, []complex128{1 + 2i}, []complex128{3 - 5i}, []complex128{4 - 3i}},
		{Prod, datatype.Int64, []int64{-3, 1 << 62}, []int64{7, 4}, []int64{-21, 0}},
		{Prod, datatype.Uint32, []uint32{1 << 31, 3}, []uint32{2, 1<<32 - 1}, []uint32{0, 1<<32 - 3}},
		{Prod, datatype.Complex64, []complex64{1 + 2i}, []complex64{3 - 5i}, []complex64{13 + 1i}},
		{Prod, datatype.Complex128, []complex128{2i}, []complex128{2i}, []complex128{-4}},
		{Min, datatype.Uint8, []uint8{1, 255}, []uint8{255, 2}, []uint8{1, 2}},
		{Max, datatype.Uint64, []uint64{1, math.MaxUint64}, []uint64{1 << 63, 2}, []uint64{1 << 63, math.MaxUint64}},
		{Max, datatype.Int16, []int16{-1, 5}, []int16{-2, 6}, []int16{-1, 6}},
		{Min, datatype.Float32, []float32{1, zero, negative, nan, 1, -inf}, []float32{2, negative, zero, -inf, nan, inf},
			[]float32{1, negative, negative, all, all, -inf}},
		{Max, datatype.Float32, []float32{1, zero, negative, nan, 1, -inf}, []float32{2, negative, zero, inf, nan, inf},
			[]float32{2, zero, zero, all, all, inf}},
		{Band, datatype.Uint8, []uint8{12, 255, 0, 1, 2, 3, 4, 5, 6}, []uint8{10, 15, 9, 1, 3, 3, 3, 4, 2},
			[]uint8{8, 15, 0, 1, 2, 3, 0, 4, 2}},
		{Bor, datatype.Int16, []int16{12, -256}, []int16{10, 15}, []int16{14, -241}},
		{Bxor, datatype.Int64, []int64{12, -1}, []int64{10, 5}, []int64{6, -6}},
		{Land, datatype.Int32, []int32{0, 0, 256, -1}, []int32{0, 3, 0, 512}, []int32{0, 0, 0, 1}},
		{Lor, datatype.Uint64, []uint64{0, 0, 1 << 63, 7}, []uint64{0, 1 << 40, 0, 512}, []uint64{0, 1, 1, 1}},
		{Lxor, datatype.Int8, []int8{0, 0, 4, -1}, []int8{0, 3, 0, 5}, []int8{0, 1, 1, 0}},
		{Land, datatype.Bool, []bool{false, false, true, true}, []bool{false, true, false, true}, []bool{false, false, false, true}},
		{Band, datatype.Bool, []bool{false, false, true, true}, []bool{false, true, false, true}, []bool{false, false, false, true}},
		{Bor, datatype.Bool, []bool{false, false, true, true}, []bool{false, true, false, true}, []bool{false, true, true, true}},
		{Lxor, datatype.Bool, []bool{false, false, true, true}, []bool{false, true, false, true}, []bool{false, true, true, false}},
		{Bxor, datatype.Bool, []bool{false, false, true, true}, []bool{false, true, false, true}, []bool{false, true, true, false}},
	} {
		f, ok := Lookup(c.op, c.kind)
		if !ok {
			t.Errorf("%v of %v is not defined", c.op, c.kind)
			continue
		}
		a, b, want := encode(t, c.a), encode(t, c.b), encode(t, c.want)
		got := make([]byte, len(want))
		if f(got, a, b); !bytes.Equal(got, want) {
			t.Errorf("%v of %v %v and %v: % x, want % x", c.op, c.kind, c.a, c.b, got, want)
		}
		if f(a, a, b); !bytes.Equal(a, want) {
			t.Errorf("%v of %v %v and %v in place: % x, want % x", c.op, c.kind, c.a, c.b, a, want)
		}
	}
}

// TestLookupIsPlain holds what Lookup returns, which may be the vector form of another kind, against the portable form.
func TestLookupIsPlain(t *testing.T) {
	for op := firstOp; op <= lastOp; op++ {
		for k := datatype.Bool; k < datatype.Kinds; k++ {
			f, ok := Lookup(op, k)
			if !ok {
				continue
			}
			a, b := make([]byte, 160), make([]byte, 160)
			for i := range a {
				a[i], b[i] = byte(i%7+i/9)%64, byte(i*i%61)%64 // no NaN
				if k == datatype.Bool {
					a[i], b[i] = a[i]&1, b[i]&1
				}
			}
			got, want := make([]byte, 160), make([]byte, 160)
			f(got, a, b)
			table[k].portable[op-firstOp](want, a, b)
			if !bytes.Equal(got, want) {
				t.Errorf("%v of %v: % x, want % x", op, k, got, want)
			}
		}
	}
}

func TestUser(t *testing.T) {
	minus := User(func(dst, src []byte) {
		for i := range dst {
			dst[i] -= src[i]
		}
	})
	a, b, dst := []byte{9, 8}, []byte{1, 2}, make([]byte, 2)
	minus(dst, a, b)
	if !bytes.Equal(dst, []byte{8, 6}) || !bytes.Equal(a, []byte{9, 8}) {
		t.Errorf("got %v, and the left operand is %v", dst, a)
	}
	if minus(a, a, b); !bytes.Equal(a, []byte{8, 6}) {
		t.Errorf("in place: %v", a)
	}
	minus(nil, nil, nil)
}

func TestNames(t *testing.T) {
	for _, d := range defined {
		for _, op := range d.ops {
			if strings.HasPrefix(op.String(), "op ") {
				t.Errorf("%v has no name", op)
			}
		}
	}
	if Sum != 0x21 || Lxor.String() != "lxor" || Op(0x25).String() != "op 0x25" {
		t.Error("operations do not have the numbers of the ABI")
	}
}

func TestAllocs(t *testing.T) {
	a, b := make([]byte, 1024), make([]byte, 1024)
	if n := alloctest.Count(10, func() {
		f, ok := Lookup(Sum, datatype.Float64)
		if !ok {
			t.Fatal("not defined")
		}
		f(a, a, b)
	}); n != 0 {
		t.Errorf("Lookup and a reduction allocate %v times", n)
	}
}
