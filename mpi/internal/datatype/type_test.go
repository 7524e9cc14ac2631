package datatype

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/alloctest"
)

func TestPredefined(t *testing.T) {
	n, want := 0, 0
	for _, row := range kindTable {
		want += len(strings.Fields(row.mpi))
	}
	for name, p := range named() {
		n++
		if lb, extent := p.Extent(); p.Name() != name || Named(name) != p || !p.Committed() || lb != 0 ||
			extent != int64(p.Kind().Size()) || !strings.HasPrefix(p.Name(), "MPI_") {
			t.Errorf("%s: bounds %d %d", p.Name(), lb, extent)
		}
		if !p.Equal(OfKind(p.Kind())) {
			t.Errorf("%s differs from %v", p.Name(), p.Kind())
		}
	}
	if n != want || Named("MPI_LONG").Kind() != Long || Named("int") != nil || OfKind(0) != nil || OfKind(Kinds) != nil {
		t.Errorf("%d predefined types, want %d", n, want)
	}
}

func TestMatchSize(t *testing.T) {
	sizes := map[Class][]int{ClassInteger: {1, 2, 4, 8}, ClassReal: {4, 8}, ClassComplex: {8, 16}}
	for class := ClassInteger - 1; class <= ClassComplex+1; class++ {
		for size := -1; size < 33; size++ {
			typ, err := MatchSize(class, size)
			switch want := slices.Contains(sizes[class], size); {
			case want && (err != nil || typ.Size() != int64(size)):
				t.Errorf("class %d, %d bytes: %v", class, size, err)
			case !want && !errors.Is(err, ErrArgument):
				t.Errorf("class %d, %d bytes: %v", class, size, err)
			}
		}
	}
}

func TestSignatureOfLong(t *testing.T) {
	if Named("MPI_LONG").Signature() != Named("MPI_INT64_T").Signature() {
		t.Error("long and int64_t have different signatures")
	}
	seen := map[Signature]Kind{}
	for k := Kind(1); k < Kinds; k++ {
		s := OfKind(k).Signature()
		if other, ok := seen[s]; ok && other != Int64 && other != Uint64 {
			t.Errorf("%v and %v have the same signature", k, other)
		}
		seen[s] = k
	}
}

// TestSizeOfInvalid: numbers of elements that a type cannot have.
func TestSizeOfInvalid(t *testing.T) {
	none := must(Contiguous(0, OfKind(Int32)))
	for _, c := range []struct {
		t     *Type
		count int64
		n     int64
		ok    bool
	}{
		{none, 0, 0, true}, {none, 1, 0, false}, {OfKind(Int32), 0, 0, true}, {OfKind(Int32), -1, 0, false},
		{OfKind(Float64), math.MaxInt64 / 8, 0, false}, {OfKind(Float64), 1 << 59, 1 << 62, true},
	} {
		if n, ok := c.t.SizeOf(c.count); n != c.n || ok != c.ok {
			t.Errorf("%d elements of %v: %d, %v; want %d, %v", c.count, c.t, n, ok, c.n, c.ok)
		}
	}
}

// TestBounds has the examples of MPI-5.0 §5.1: the alignment of a struct, explicit bounds that win, and types without elements.
func TestBounds(t *testing.T) {
	pair := must(Struct([]int64{1, 1}, []int64{0, 8}, []*Type{OfKind(Float64), OfKind(Char)}))
	resized := must(Resized(-3, 9, OfKind(Int32)))
	for _, c := range []struct {
		name       string
		t          *Type
		lb, extent int64
	}{
		{"(double, 0), (char, 8)", pair, 0, 16},
		{"two pairs", must(Contiguous(2, pair)), 0, 32},
		{"pairs 4 bytes apart", must(HIndexed([]int64{1, 1}, []int64{0, 4}, pair)), 0, 16},
		{"(char, 1)", must(HIndexed([]int64{1}, []int64{1}, OfKind(Char))), 1, 1},
		{"resized", resized, -3, 9},
		{"two resized", must(Contiguous(2, resized)), -3, 18},
		{"resized in a struct with a later element",
			must(Struct([]int64{1, 1}, []int64{0, 50}, []*Type{resized, OfKind(Int64)})), -3, 9},
		{"resized twice", must(Resized(1, 2, resized)), 1, 2},
		{"no elements", must(Contiguous(0, pair)), 0, 0},
		{"no elements far away", must(HIndexed([]int64{0}, []int64{1000}, pair)), 0, 0},
		{"bounds without elements", must(Contiguous(3, must(Resized(2, 5, must(Contiguous(0, pair)))))), 2, 15},
		{"backwards", must(Vector(3, 1, -2, OfKind(Int32))), -16, 20},
	} {
		if lb, extent := c.t.Extent(); lb != c.lb || extent != c.extent {
			t.Errorf("%s: lb %d, extent %d, want %d, %d", c.name, lb, extent, c.lb, c.extent)
		}
	}
}

// TestPrograms checks what types are compiled to: the mean length of blocks, and whether they are one block.
func TestPrograms(t *testing.T) {
	f64 := OfKind(Float64)
	column := must(Vector(100, 1, 128, f64))
	displs := make([]int64, 1000)
	for i := range displs {
		displs[i] = int64(i/10*100 + i%10*2)
	}
	for _, c := range []struct {
		name     string
		t        *Type
		count    int64
		blockLen int64
		kind     opKind
	}{
		{"contiguous", must(Contiguous(10, f64)), 7, 560, opBlock},
		{"dense vector", must(Vector(10, 2, 2, f64)), 1, 160, opBlock},
		{"column", column, 1, 8, opLoop},
		{"row by blocks", must(Indexed([]int64{1, 2, 3}, []int64{0, 1, 3}, f64)), 2, 96, opBlock},
		{"struct of all", must(Struct([]int64{2, 1}, []int64{0, 16}, []*Type{f64, Named("MPI_LONG")})), 3, 72, opBlock},
		{"vector of vectors that continue", must(HVector(4, 1, 100*1024, must(Resized(0, 100*1024, column)))), 1, 8, opLoop},
		{"indexed that is a loop of loops", must(IndexedBlock(1, displs, f64)), 1, 8, opLoop},
		{"face", must(Subarray([]int64{8, 8, 8}, []int64{8, 8, 1}, []int64{0, 0, 3}, OrderC, f64)), 2, 8, opLoop},
	} {
		c.t.Commit()
		_, extent := c.t.TrueExtent()
		b, err := c.t.Buffer(make([]byte, 10*extent+10000000), 0, c.count)
		if err != nil {
			t.Fatal(err)
		}
		if top := &c.t.program.Load().top; b.BlockLen() != c.blockLen || top.kind != c.kind || depth(top) > 4 {
			t.Errorf("%s: mean block %d, want %d; kind %d, depth %d", c.name, b.BlockLen(), c.blockLen, top.kind, depth(top))
		}
		if _, ok := b.Contiguous(); ok != (c.kind == opBlock) {
			t.Errorf("%s: contiguous %v", c.name, ok)
		}
	}
	face := committed(Subarray([]int64{8, 8, 8}, []int64{8, 8, 1}, []int64{0, 0, 3}, OrderC, f64))
	if face.program.Load().top.n != 64 {
		t.Error("the loops of a face that continue each other are not joined")
	}
}

// depth returns the levels of a tree of ops.
func depth(o *op) int {
	d := 0
	if o.body.op != nil {
		d = depth(o.body.op)
	}
	for _, it := range o.items {
		d = max(d, depth(it.op))
	}
	return d + 1
}

func TestNames(t *testing.T) {
	if CombinerNamed.String() != "named" || CombinerResized.String() != "resized" ||
		CombinerIndexedBlock.String() != "indexed_block" {
		t.Error("names of combiners are not in their order")
	}
	f64 := OfKind(Float64)
	long := make([]int64, 100)
	deep := f64
	for _, c := range []struct {
		t    *Type
		want string
	}{
		{f64, "float64"},
		{Named("MPI_LONG"), "MPI_LONG"},
		{must(Dup(must(Vector(3, 1, 128, f64)))), "vector(3 1 128) of float64"},
		{must(Struct([]int64{1, 2}, []int64{0, 8}, []*Type{f64, must(Resized(0, 3, OfKind(Byte)))})),
			"struct(2 1 2 0 8) of float64, resized(0 3) of byte"},
		{must(IndexedBlock(1, long, f64)), "indexed_block(100 1 0 0 0 0 0 0 ...) of float64"},
	} {
		if got := c.t.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	for range 60 { // a type that is a tree of 2^60 leaves when written out
		deep = must(HIndexed([]int64{1}, []int64{0}, must(Struct([]int64{1, 0}, []int64{0, 0}, []*Type{deep, deep}))))
	}
	if n := len(deep.String()); n > 1000 {
		t.Errorf("the text of a deep type has %d bytes", n)
	}
	c, err := must(Indexed([]int64{1, 2}, []int64{3, 5}, OfKind(Byte))).Contents()
	if err != nil || !slices.Equal(c.Ints, []int64{2, 1, 2, 3, 5}) || c.Types[0] != OfKind(Byte) {
		t.Errorf("contents of an indexed type: %v %v", c, err)
	}
}

// TestConcurrentUse commits and checks a type in several goroutines at once.
func TestConcurrentUse(t *testing.T) {
	column := must(Resized(0, 8, must(HVector(10, 1, 80, OfKind(Float64)))))
	var g GoTypes
	var wg sync.WaitGroup
	for i := range int64(8) {
		wg.Go(func() {
			column.Commit()
			if err := column.CheckOverlap(3 + i); err != nil {
				t.Errorf("%d columns: %v", 3+i, err)
			}
			if err := column.CheckOverlap(11 + i); !errors.Is(err, ErrOverlap) {
				t.Errorf("%d columns: %v", 11+i, err)
			}
			if p, err := g.Of(reflect.TypeFor[particle]()); err != nil || p.Size() == 0 {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestAllocs requires that moving data allocates nothing.
func TestAllocs(t *testing.T) {
	record := must(Resized(0, 32, must(Struct([]int64{1, 3, 1}, []int64{0, 8, 29},
		[]*Type{OfKind(Float64), OfKind(Int32), OfKind(Byte)}))))
	odd := must(HIndexed([]int64{1, 2, 1, 4}, []int64{0, 40, 200, 1000}, record))
	kinds := []*Type{OfKind(Int32), record, odd, must(Vector(9, 1, 3, odd)), must(Vector(64, 1, 16, OfKind(Float64)))}
	mem, packed, out := make([]byte, 1<<17), make([]byte, 1<<14), make([]fabric.Block, 16)
	for _, typ := range kinds {
		typ.Commit()
		if n := alloctest.Count(10, func() {
			b, err := typ.Buffer(mem, 0, 3)
			if err != nil || typ.CheckOverlap(3) != nil {
				t.Fatal(err)
			}
			for from := int64(0); from < b.Size(); {
				n := b.Pack(packed[:min(50, len(packed))], from)
				b.Unpack(packed[:n], from)
				from += int64(n)
			}
			b.Blocks(out, 5, b.Size())
			b.Contiguous()
			if n, err := b.PackExternal(packed); err != nil || n != b.ExternalSize() {
				t.Fatal(err)
			}
			if _, err := b.UnpackExternal(packed); err != nil || typ.Signature().Repeat(3).Count == 0 || b.BlockLen() == 0 {
				t.Fatal(err)
			}
			if _, ok := typ.SignatureOf(typ.Size()); !ok || !typ.Equal(typ) {
				t.Fatal("not equal to itself")
			}
		}); n != 0 {
			t.Errorf("%v allocates %v times", typ, n)
		}
	}
}
