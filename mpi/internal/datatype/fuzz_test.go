package datatype

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// fuzzInput takes numbers from the input of a fuzz target.
type fuzzInput struct{ b []byte }

func (f *fuzzInput) byte() byte {
	if len(f.b) == 0 {
		return 0
	}
	x := f.b[0]
	f.b = f.b[1:]
	return x
}

// int returns a small number, or any.
func (f *fuzzInput) int() int64 {
	x := f.byte()
	if x < 0xe0 || len(f.b) < 8 {
		return int64(int8(x<<1)) >> 1
	}
	n := int64(binary.LittleEndian.Uint64(f.b))
	f.b = f.b[8:]
	return n >> (x & 31)
}

func (f *fuzzInput) ints() []int64 {
	ns := make([]int64, f.byte()%6)
	for i := range ns {
		ns[i] = f.int()
	}
	return ns
}

// typ returns a type that a constructor makes of old types, or nil if it refuses.
func (f *fuzzInput) typ(ts []*Type) *Type {
	old := ts[int(f.byte())%len(ts)]
	var t *Type
	switch f.byte() % 12 {
	case 0:
		t, _ = Contiguous(f.int(), old)
	case 1:
		t, _ = Vector(f.int(), f.int(), f.int(), old)
	case 2:
		t, _ = HVector(f.int(), f.int(), f.int(), old)
	case 3:
		t, _ = Indexed(f.ints(), f.ints(), old)
	case 4:
		t, _ = HIndexed(f.ints(), f.ints(), old)
	case 5:
		t, _ = IndexedBlock(f.int(), f.ints(), old)
	case 6:
		t, _ = HIndexedBlock(f.int(), f.ints(), old)
	case 7:
		lens, types := f.ints(), []*Type(nil)
		for range lens {
			types = append(types, ts[int(f.byte())%len(ts)])
		}
		t, _ = Struct(lens, f.ints(), types)
	case 8:
		t, _ = Subarray(f.ints(), f.ints(), f.ints(), OrderC+Order(f.byte()%3)*3, old)
	case 9:
		gsizes := f.ints()
		distribs := make([]Distribution, len(gsizes))
		for i := range distribs {
			distribs[i] = DistributeNone + Distribution(f.byte()%4)
		}
		t, _ = Darray(f.int(), f.int(), gsizes, distribs, f.ints(), f.ints(), OrderC+Order(f.byte()%2)*3, old)
	case 10:
		t, _ = Resized(f.int(), f.int(), old)
	default:
		t, _ = Dup(old)
	}
	return t
}

// FuzzConstructors makes types of any arguments, nests them, and uses those that are accepted. Nothing may panic, take long,
// or touch other memory than that of the buffer.
func FuzzConstructors(f *testing.F) {
	f.Add([]byte{4, 1, 5, 2, 3, 0, 0, 3, 9, 10, 1, 20, 13, 7, 2, 1, 2, 9, 1, 3, 2, 0, 40})
	f.Add([]byte{9, 2, 0xff, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0xe1, 9, 9, 9, 9, 9, 9, 9, 9})
	f.Add(bytes.Repeat([]byte{1, 0, 2}, 40))
	f.Fuzz(func(t *testing.T, in []byte) {
		x := fuzzInput{in}
		ts := []*Type{OfKind(Int8), OfKind(Int32), OfKind(Complex128), OfKind(Bool)}
		for i := 0; len(x.b) > 0 && i < 20; i++ {
			if typ := x.typ(ts); typ != nil {
				ts = append(ts, typ)
			}
		}
		typ := ts[len(ts)-1]
		lb, extent := typ.Extent()
		if trueLB, trueExtent := typ.TrueExtent(); extent < 0 || trueExtent < 0 || lb+extent < lb || trueLB+trueExtent < trueLB ||
			typ.Size() < typ.Elements() {
			t.Fatalf("lb %d, extent %d, true lb %d, true extent %d, size %d", lb, extent, trueLB, trueExtent, typ.Size())
		}
		typ.Commit()
		mem := make([]byte, 4096)
		b, err := typ.Buffer(mem, x.int(), x.int())
		if err != nil {
			return
		}
		packed, out := make([]byte, 300), make([]fabric.Block, 7)
		for _, from := range []int64{0, x.int(), b.Size() / 3} {
			b.Unpack(packed[:b.Pack(packed, from)], from)
			n, _ := b.Blocks(out, from, from+200)
			for _, s := range out[:n] {
				b.Slice(s)
			}
		}
		if b.Size() < 1<<16 {
			b.PackExternal(packed)
			_ = typ.CheckOverlap(3)
		}
	})
}

// FuzzExternal loads any bytes as external data, and stores them again.
func FuzzExternal(f *testing.F) {
	f.Add(uint8(3), bytes.Repeat([]byte{0xff, 0x80, 3}, 30))
	f.Fuzz(func(t *testing.T, k uint8, in []byte) {
		kind := Kind(1 + k%(Kinds-1))
		typ := committed(Vector(3, 2, 3, OfKind(kind)))
		mem := make([]byte, 8*16)
		b, err := typ.Buffer(mem, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		n, err := b.UnpackExternal(in)
		if err != nil != (int64(len(in)) < b.ExternalSize()) {
			t.Fatalf("%d bytes, need %d: %d %v", len(in), b.ExternalSize(), n, err)
		}
		again := make([]byte, n)
		if m, err := b.PackExternal(again); n > 0 && (err != nil || m != n || kind != Bool && !bytes.Equal(again, in[:n])) {
			t.Fatalf("%v: % x, loaded and stored: % x, %v", kind, in[:n], again, err)
		}
	})
}

// TestExternalPrefixes requires that all external data that is too short is refused, and stores nothing.
func TestExternalPrefixes(t *testing.T) {
	typ := committed(Struct([]int64{1, 2}, []int64{0, 8}, []*Type{OfKind(Int32), OfKind(Long)}))
	for n := range 12 {
		mem := make([]byte, 24)
		b, err := typ.Buffer(mem, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.UnpackExternal(bytes.Repeat([]byte{1}, n)); err == nil || got != 0 || !bytes.Equal(mem, make([]byte, 24)) {
			t.Errorf("%d bytes: %d %v", n, got, err)
		}
	}
}
