package datatype

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// must returns the type of a constructor that cannot fail.
func must(t *Type, err error) *Type {
	if err != nil {
		panic(err)
	}
	return t
}

func committed(t *Type, err error) *Type {
	must(t, err).Commit()
	return t
}

func TestConstructorErrors(t *testing.T) {
	i32, big := OfKind(Int32), int64(math.MaxInt64)
	wide := must(Resized(0, big/2, i32))
	grid := func(size, rank int64, d Distribution, arg, p int64) error {
		_, err := Darray(size, rank, []int64{10}, []Distribution{d}, []int64{arg}, []int64{p}, OrderC, i32)
		return err
	}
	result := func(_ *Type, err error) error { return err }
	one, two := []int64{1}, []int64{1, 2}
	for _, c := range []struct {
		name string
		got  error
		want error
		text string
	}{
		{"contiguous, count", result(Contiguous(-1, i32)), ErrNegativeCount, "contiguous: count -1"},
		{"contiguous, type", result(Contiguous(1, nil)), ErrNoType, "old type"},
		{"contiguous, size", result(Contiguous(big/2, i32)), ErrOverflow, "contiguous: size or extent"},
		{"contiguous, extent", result(Contiguous(4, wide)), ErrOverflow, "63 bits"},
		{"vector, count", result(Vector(-3, 1, 1, i32)), ErrNegativeCount, "vector: count -3"},
		{"vector, block", result(Vector(1, -3, 1, i32)), ErrNegativeCount, "block length -3"},
		{"vector, type", result(Vector(1, 1, 1, nil)), ErrNoType, "vector"},
		{"vector, stride", result(Vector(2, 1, big/2, i32)), ErrOverflow, "stride"},
		{"hvector, end", result(HVector(3, 1, big/2+1, i32)), ErrOverflow, "hvector"},
		{"hvector, negative", result(HVector(3, 1, math.MinInt64, i32)), ErrOverflow, "hvector"},
		{"hvector, type", result(HVector(3, 1, 1, nil)), ErrNoType, "hvector"},
		{"hvector, markers", result(HVector(3, 1, big/2, wide)), ErrOverflow, "hvector"},
		{"indexed, lengths", result(Indexed(one, two, i32)), ErrArgument, "1 block lengths and 2 displacements"},
		{"indexed, block", result(Indexed([]int64{1, -1}, two, i32)), ErrNegativeCount, "block length -1 of block 1"},
		{"indexed, displacement", result(Indexed(one, []int64{big / 2}, i32)), ErrOverflow, "indexed"},
		{"indexed, type", result(Indexed(one, one, nil)), ErrNoType, "indexed"},
		{"hindexed, end", result(HIndexed(one, []int64{big - 3}, i32)), ErrOverflow, "hindexed"},
		{"hindexed, span", result(HIndexed([]int64{1, 1}, []int64{-big, big - 8}, i32)), ErrOverflow, "hindexed"},
		{"indexed_block, block", result(IndexedBlock(-1, one, i32)), ErrNegativeCount, "block length -1"},
		{"hindexed_block, block", result(HIndexedBlock(-1, nil, i32)), ErrNegativeCount, "block length -1"},
		{"hindexed_block, type", result(HIndexedBlock(1, one, nil)), ErrNoType, "hindexed_block"},
		{"struct, lengths", result(Struct(one, two, []*Type{i32})), ErrArgument, "2 displacements"},
		{"struct, types", result(Struct(one, one, nil)), ErrArgument, "0 types"},
		{"struct, type", result(Struct(one, one, []*Type{nil})), ErrNoType, "type of block 0"},
		{"struct, block", result(Struct([]int64{-1}, one, []*Type{i32})), ErrNegativeCount, "block length -1 of block 0"},
		{"struct, size", result(Struct([]int64{big / 4}, one, []*Type{OfKind(Int64)})), ErrOverflow, "struct"},
		{"resized, extent", result(Resized(0, -1, i32)), ErrNegativeExtent, "extent -1"},
		{"resized, bound", result(Resized(2, big, i32)), ErrOverflow, "resized"},
		{"resized, type", result(Resized(0, 0, nil)), ErrNoType, "resized"},
		{"dup", result(Dup(nil)), ErrNoType, "dup"},
		{"subarray, dimensions", result(Subarray(nil, nil, nil, OrderC, i32)), ErrArgument, "no dimensions"},
		{"subarray, lengths", result(Subarray(two, two, one, OrderC, i32)), ErrArgument, "2 dimensions"},
		{"subarray, order", result(Subarray(one, one, one, 2, i32)), ErrArgument, "order 2"},
		{"subarray, type", result(Subarray(one, one, one, OrderC, nil)), ErrNoType, "subarray"},
		{"subarray, start", result(Subarray([]int64{3}, []int64{2}, []int64{2}, OrderC, i32)), ErrArgument,
			"2 elements from 2 on, of 3"},
		{"subarray, part", result(Subarray(one, []int64{0}, []int64{0}, OrderC, i32)), ErrArgument, "0 elements"},
		{"subarray, size", result(Subarray([]int64{big, 4}, one2, []int64{0, 0}, OrderC, i32)), ErrOverflow, "subarray"},
		{"darray, rank", grid(2, 2, DistributeBlock, DefaultArgument, 2), ErrArgument, "rank 2 of 2"},
		{"darray, grid", grid(3, 0, DistributeBlock, DefaultArgument, 2), ErrArgument, "grid of [2]"},
		{"darray, processes", grid(1, 0, DistributeBlock, DefaultArgument, 0), ErrArgument, "0 processes"},
		{"darray, block", grid(2, 0, DistributeBlock, 4, 2), ErrArgument, "2 blocks of 4 for 10"},
		{"darray, argument", grid(2, 0, DistributeCyclic, 0, 2), ErrArgument, "blocks of 0"},
		{"darray, none", grid(2, 0, DistributeNone, DefaultArgument, 2), ErrArgument, "not distributed"},
		{"darray, distribution", grid(2, 0, 7, DefaultArgument, 2), ErrArgument, "distribution 7"},
		{"darray, size", result(Darray(1, 0, []int64{0}, []Distribution{0}, []int64{-1}, one, OrderC, i32)), ErrArgument, "0 elements"},
	} {
		if !errors.Is(c.got, c.want) || !strings.Contains(c.got.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", c.name, c.got, c.want, c.text)
		}
	}
}

var one2 = []int64{1, 1}

// TestLargeTypes makes types at the limits that are still valid.
func TestLargeTypes(t *testing.T) {
	i8, big := OfKind(Int8), int64(math.MaxInt64)
	huge := committed(Contiguous(big, i8))
	if huge.Size() != big || huge.Elements() != big || huge.Signature() != i8.Signature().Repeat(big) {
		t.Errorf("size %d, elements %d", huge.Size(), huge.Elements())
	}
	if _, err := huge.Buffer(make([]byte, 8), 0, 2); !errors.Is(err, ErrOverflow) {
		t.Errorf("two elements of 2^63-1 bytes: %v", err)
	}
	if _, err := huge.Buffer(make([]byte, 8), big, 1); !errors.Is(err, ErrOverflow) {
		t.Errorf("origin: %v", err)
	}
	if _, err := huge.Buffer(make([]byte, 8), 0, 1); !errors.Is(err, ErrBounds) {
		t.Errorf("too large: %v", err)
	}
	cyclic := must(Darray(2, 1, []int64{big}, []Distribution{DistributeCyclic}, []int64{big - 1}, []int64{2}, OrderC, i8))
	if lb, _ := cyclic.TrueExtent(); cyclic.Size() != 1 || lb != big-1 {
		t.Errorf("the last element of 2^63-1: size %d at %d", cyclic.Size(), lb)
	}
	many := OfKind(Int32) // a small tree that stands for 2^40 blocks
	for range 40 {
		_, extent := many.Extent()
		many = must(Struct([]int64{1, 1}, []int64{0, extent + 4}, []*Type{many, many}))
	}
	many.Commit()
	if err := many.CheckOverlap(3); err != nil {
		t.Error(err)
	}
	displs := make([]int64, 4000)
	for i := range displs {
		displs[i] = int64(16*i + i*i%5)
	}
	many = OfKind(Int8)
	for range 3 { // 64 billion blocks, which must not be written out
		many = must(IndexedBlock(1, displs, many))
	}
	many.Commit()
	stacked := committed(HVector(big/8, 1, 0, OfKind(Int64)))
	if err := stacked.CheckOverlap(big); !errors.Is(err, ErrOverlap) {
		t.Errorf("all elements at one place: %v", err)
	}
}

func TestUseErrors(t *testing.T) {
	v := must(Vector(3, 1, 2, OfKind(Int32)))
	_, err := v.Buffer(make([]byte, 100), 0, 1)
	if !errors.Is(err, ErrNotCommitted) || !errors.Is(v.CheckOverlap(1), ErrNotCommitted) || v.Committed() {
		t.Errorf("before Commit: %v", err)
	}
	v.Commit()
	v.Commit()
	if _, err := v.Buffer(make([]byte, 100), 0, -1); !errors.Is(err, ErrNegativeCount) || !v.Committed() {
		t.Errorf("count -1: %v", err)
	}
	if dup := must(Dup(v)); !dup.Committed() {
		t.Error("a copy of a committed type is not committed")
	}
	b, err := v.Buffer(make([]byte, 20), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.PackExternal(make([]byte, 11)); n != 0 || !errors.Is(err, ErrTruncated) {
		t.Errorf("external, short: %d %v", n, err)
	}
	if n, err := b.UnpackExternal(make([]byte, 11)); n != 0 || !errors.Is(err, ErrTruncated) {
		t.Errorf("external, short: %d %v", n, err)
	}
	if b.Pack(make([]byte, 3), -1) != 0 || b.Unpack(make([]byte, 3), 13) != 0 {
		t.Error("copies outside of the packed bytes")
	}
	if n, next := b.Blocks(make([]fabric.Block, 3), 12, 20); n != 0 || next != 12 {
		t.Errorf("%d segments at the end, next %d", n, next)
	}
	if b, err := v.Buffer(nil, 5, 0); err != nil || b.Size() != 0 || b.BlockLen() != 0 {
		t.Errorf("no elements: %v", err)
	}
}

func TestExternalConversion(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		value []byte
		ok    bool
	}{
		{Long, []byte{0, 0, 0, 0x80, 0xff, 0xff, 0xff, 0xff}, true},
		{Long, []byte{0, 0, 0, 0x80, 0, 0, 0, 0}, false},
		{ULong, []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, true},
		{ULong, []byte{0, 0, 0, 0, 1, 0, 0, 0}, false},
		{ULong, []byte{0, 0, 0, 0, 0, 0, 0, 0xff}, false},
		{WChar, []byte{0xff, 0xff, 0, 0}, true},
		{WChar, []byte{0, 0, 1, 0}, false},
	} {
		mem := append(make([]byte, c.kind.Size()), c.value...)
		b, err := OfKind(c.kind).Buffer(mem, 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		n, err := b.PackExternal(make([]byte, 16))
		want := int64(c.kind.ExternalSize()) // of the first element
		if c.ok && (err != nil || n != 2*want) || !c.ok && (!errors.Is(err, ErrConversion) || n != want) {
			t.Errorf("%v % x: %d bytes, %v", c.kind, c.value, n, err)
		}
	}
}
