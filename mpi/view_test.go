package mpi_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/mpi"
)

// elementsOf returns the elements that a view names, in order.
func elementsOf[T any](v mpi.View) ([]T, error) {
	b, err := mpi.Pack(nil, v)
	if err != nil {
		return nil, err
	}
	x := make([]T, len(b)/mpi.ViewOf(make([]T, 1)).Size())
	rest, err := mpi.Unpack(b, mpi.ViewOf(x))
	return x, errors.Join(err, check(len(rest) == 0, "%d bytes are left", len(rest)))
}

// partOf returns the elements of a part of an array by loops over all elements.
func partOf(x, dims, starts, sizes []int) []int {
	out := []int{}
	for i, v := range x {
		in := true
		for d := len(dims) - 1; d >= 0; d-- {
			j := i % dims[d]
			i /= dims[d]
			in = in && starts[d] <= j && j < starts[d]+sizes[d]
		}
		if in {
			out = append(out, v)
		}
	}
	return out
}

// TestArrayViews: faces and parts of random arrays have the elements that loops find, and store elements there only.
func TestArrayViews(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 22))
		dims, starts, sizes := make([]int, 1+r.IntN(4)), []int{}, []int{}
		n := 1
		for d := range dims {
			dims[d] = 1 + r.IntN(6)
			n *= dims[d]
			starts = append(starts, r.IntN(dims[d]))
			sizes = append(sizes, r.IntN(dims[d]-starts[d]+1))
		}
		x := r.Perm(n)
		a := mpi.ArrayOf(x, dims...)
		dim := r.IntN(len(dims))
		from, to := make([]int, len(dims)), slices.Clone(dims)
		from[dim], to[dim] = starts[dim], 1
		views := map[string]struct {
			v           mpi.View
			from, sizes []int
		}{
			"face": {a.Face(dim, starts[dim]), from, to}, "part": {a.Sub(starts, sizes), starts, sizes},
			"again": {a.Sub(starts, sizes), starts, sizes}, "all": {a.All(), make([]int, len(dims)), dims},
		}
		for name, v := range views {
			if err := viewHas(x, dims, v.v, v.from, v.sizes); err != nil {
				t.Fatalf("seed %d: %s %v from %v of %v: %v", seed, name, v.sizes, v.from, dims, err)
			}
		}
	}
}

// viewHas checks that a view of an array reads and writes a part of it.
func viewHas(x, dims []int, v mpi.View, starts, sizes []int) error {
	want := partOf(x, dims, starts, sizes)
	got, err := elementsOf[int](v)
	if err := errors.Join(err, check(slices.Equal(got, want), "%v, want %v", got, want)); err != nil {
		return err
	}
	changed := make([]int, len(want))
	for i := range changed {
		changed[i] = -1 - i
	}
	kept := slices.Clone(x)
	b, err := mpi.Pack(nil, mpi.ViewOf(changed))
	if err != nil {
		return err
	}
	_, err = mpi.Unpack(b, v)
	for i := range x {
		if j := slices.Index(want, kept[i]); j >= 0 {
			if x[i] != -1-j {
				return fmt.Errorf("element %d is %d, want %d", i, x[i], -1-j)
			}
			x[i] = kept[i]
		}
	}
	return errors.Join(err, check(slices.Equal(x, kept), "stored %v, which changed %v", changed, x))
}

// TestRowsAndColumns: rows, columns, indices, and arrays of structs.
func TestRowsAndColumns(t *testing.T) {
	type cell struct {
		Kind int8
		Mass float64
	}
	x := make([]cell, 12)
	a := mpi.ArrayOf(x, 3, 4)
	for i := range 3 {
		for j := range 4 {
			a.Set(cell{int8(i), float64(j)}, i, j)
		}
	}
	row, err1 := elementsOf[byte](a.Row(1))
	col, err2 := elementsOf[byte](a.Col(2))
	if err := errors.Join(err1, err2); err != nil || len(row) != 4*9 || len(col) != 3*9 {
		t.Fatalf("a row has %d bytes and a column %d, want 36 and 27: %v", len(row), len(col), err)
	}
	if row[0] != 1 || col[9] != 1 || col[18] != 2 || a.At(2, 3) != (cell{2, 3}) || a.Index(2, 3) != 11 || a.Slice()[11] != x[11] {
		t.Errorf("row %v, column %v, last %v", row, col, a.At(2, 3))
	}
	for name, f := range map[string]func(){
		"outside": func() { a.At(1, 4) }, "negative": func() { a.Set(cell{}, -1, 0) }, "too few": func() { a.Index(1) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestWrongViews: what is wrong with a view is an error of every call with it.
func TestWrongViews(t *testing.T) {
	x := make([]float64, 12)
	a := mpi.ArrayOf(x, 3, 4)
	loose, err1 := mpi.TypeVector(2, 1, 3, typeOf[float64]())
	twice, err2 := mpi.TypeIndexed([]int{2, 2}, []int{0, 1}, typeOf[float64]())
	freed, err3 := typeOf[float64]().Dup()
	if err := errors.Join(err1, err2, err3, twice.Commit(), freed.Free()); err != nil {
		t.Fatal(err)
	}
	f := typeOf[float64]()
	type named struct{ Name string }
	for name, c := range map[string]struct {
		v     mpi.View
		class mpi.Class
	}{
		"not committed":     {mpi.ViewAs(x, 0, loose, 1), mpi.ErrType},
		"freed":             {mpi.ViewAs(x, 0, freed, 1), mpi.ErrType},
		"nil":               {mpi.ViewAs(x, 0, nil, 1), mpi.ErrType},
		"pointers":          {mpi.ViewOf([]named{{"x"}}), mpi.ErrType},
		"pointers as":       {mpi.ViewAs([]*int{nil}, 0, f, 1), mpi.ErrType},
		"other numbers":     {mpi.ViewAs(x, 0, typeOf[int64](), 1), mpi.ErrType},
		"negative count":    {mpi.ViewAs(x, 0, f, -1), mpi.ErrCount},
		"too many":          {mpi.ViewAs(x, 1, f, 12), mpi.ErrBuffer},
		"overflow":          {mpi.ViewAs(x, 0, f, math.MaxInt), mpi.ErrArg},
		"before":            {mpi.ViewAs(x, -1, f, 1), mpi.ErrBuffer},
		"behind":            {mpi.ViewAs(x, math.MaxInt, f, 1), mpi.ErrBuffer},
		"array too short":   {mpi.ArrayOf(x, 3, 5).Col(0), mpi.ErrCount},
		"array too long":    {mpi.ArrayOf(x, 3, 3).All(), mpi.ErrCount},
		"array overflows":   {mpi.ArrayOf(x, math.MaxInt, 3, math.MaxInt).Sub(nil, nil), mpi.ErrCount},
		"negative size":     {mpi.ArrayOf(x, -3, -4).Row(0), mpi.ErrCount},
		"no dimensions":     {mpi.ArrayOf(x[:1]).All(), mpi.ErrCount},
		"array of pointers": {mpi.ArrayOf([]string{""}, 1).All(), mpi.ErrType},
		"zero array":        {mpi.Array[int]{}.Face(0, 0), mpi.ErrArg},
		"zero array's part": {mpi.Array[int]{}.Sub(nil, nil), mpi.ErrArg},
		"row outside":       {a.Row(3), mpi.ErrArg},
		"negative column":   {a.Col(-1), mpi.ErrArg},
		"no such dimension": {a.Face(2, 0), mpi.ErrArg},
		"row in three":      {mpi.ArrayOf(x, 3, 2, 2).Row(0), mpi.ErrArg},
		"part outside":      {a.Sub([]int{1, 1}, []int{2, 4}), mpi.ErrArg},
		"part overflows":    {a.Sub([]int{1, 1}, []int{math.MaxInt, 1}), mpi.ErrArg},
		"negative part":     {a.Sub([]int{1, 1}, []int{-1, 1}), mpi.ErrArg},
		"part of a line":    {a.Sub([]int{1}, []int{1}), mpi.ErrArg},
	} {
		_, errPack := mpi.Pack(nil, c.v)
		_, errUnpack := mpi.Unpack(make([]byte, 1000), c.v)
		_, errExternal := mpi.PackExternal(nil, c.v)
		_, errBack := mpi.UnpackExternal(make([]byte, 1000), c.v)
		for _, err := range []error{c.v.Err(), errPack, errUnpack, errExternal, errBack} {
			if err := ofClass(err, c.class); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := errors.Join(ofClass(second(mpi.Unpack(make([]byte, 7), mpi.ViewOf(x[:1]))), mpi.ErrTruncate),
		ofClass(second(mpi.UnpackExternal(make([]byte, 7), mpi.ViewOf(x[:1]))), mpi.ErrTruncate),
		ofClass(second(mpi.Unpack(make([]byte, 100), mpi.ViewAs(x, 0, twice, 1))), mpi.ErrType),
		ofClass(mpi.ArrayOf(x, 1).Err(), mpi.ErrCount), a.Err(), mpi.Array[int]{}.Err(), mpi.Array[int]{}.All().Err(),
		check(slices.Max(x) == 0, "a call that failed has stored %v", x)); err != nil {
		t.Error(err)
	}
}

// TestPack: several views in one slice, in memory of their own and in external32.
func TestPack(t *testing.T) {
	long, err := mpi.TypeNamed("MPI_LONG")
	if err != nil {
		t.Fatal(err)
	}
	n, x := []int64{1, -2}, []float32{1.5}
	native, err1 := mpi.Pack([]byte("head"), mpi.ViewOf(n))
	native, err2 := mpi.Pack(native, mpi.ViewOf(x))
	external, err3 := mpi.PackExternal(nil, mpi.ViewAs(n, 0, long, 2))
	external, err4 := mpi.PackExternal(external, mpi.ViewOf(x))
	size, err5 := mpi.PackSize(2, long)
	sizeExternal, err6 := mpi.PackExternalSize(2, long)
	want := []byte{0, 0, 0, 1, 255, 255, 255, 254, 0x3f, 0xc0, 0, 0}
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil || !bytes.Equal(external, want) || len(native) != 24 ||
		size != 16 || sizeExternal != 8 {
		t.Fatalf("%d bytes, and external %v; sizes %d and %d: %v", len(native), external, size, sizeExternal, err)
	}
	m, y := make([]int64, 2), make([]float32, 1)
	rest, err1 := mpi.Unpack(native[4:], mpi.ViewOf(m))
	rest, err2 = mpi.Unpack(rest, mpi.ViewOf(y))
	if err := errors.Join(err1, err2); err != nil || len(rest) != 0 || !slices.Equal(m, n) || !slices.Equal(y, x) {
		t.Errorf("%v and %v, with %d bytes left: %v", m, y, len(rest), err)
	}
	m[0], m[1], y[0] = 0, 0, 0
	rest, err1 = mpi.UnpackExternal(external, mpi.ViewAs(m, 0, long, 2))
	rest, err2 = mpi.UnpackExternal(rest, mpi.ViewOf(y))
	if err := errors.Join(err1, err2); err != nil || len(rest) != 0 || !slices.Equal(m, n) || !slices.Equal(y, x) {
		t.Errorf("external: %v and %v, with %d bytes left: %v", m, y, len(rest), err)
	}
	n[0] = 1 << 40
	if err := errors.Join(ofClass(second(mpi.PackExternal(nil, mpi.ViewAs(n, 0, long, 2))), mpi.ErrArg),
		ofClass(second(mpi.PackSize(-1, long)), mpi.ErrCount), ofClass(second(mpi.PackSize(math.MaxInt, long)), mpi.ErrArg),
		ofClass(second(mpi.PackExternalSize(1, nil)), mpi.ErrType)); err != nil {
		t.Error(err)
	}
}

// TestViewAllocs: naming parts of an array does not allocate once each was named.
func TestViewAllocs(t *testing.T) {
	x := make([]float64, 8*9*10)
	a := mpi.ArrayOf(x, 8, 9, 10)
	flat := mpi.ArrayOf(x[:90], 9, 10)
	b := make([]byte, 0, 8*len(x))
	column, err := mpi.TypeVector(9, 1, 10, typeOf[float64]())
	if err := errors.Join(err, column.Commit()); err != nil {
		t.Fatal(err)
	}
	if n := alloctest.Count(100, func() {
		for _, v := range [...]mpi.View{a.Face(1, 2), a.Sub([]int{1, 2, 3}, []int{4, 5, 6}), a.All(), flat.Row(1), flat.Col(2),
			mpi.ViewOf(x), mpi.ViewAs(x, 3, column, 1)} {
			if _, err := mpi.Pack(b, v); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A column of a matrix in a slice, packed and stored as a row.
func ExampleArrayOf() {
	matrix := []float64{
		1, 2, 3,
		4, 5, 6,
	}
	a := mpi.ArrayOf(matrix, 2, 3)
	b, err := mpi.Pack(nil, a.Col(1))
	if err != nil {
		panic(err)
	}
	column := make([]float64, 2)
	if _, err := mpi.Unpack(b, mpi.ViewOf(column)); err != nil {
		panic(err)
	}
	fmt.Println(column)
	// Output: [2 5]
}

// Every other element of a slice, by a datatype that any slice of its elements can use.
func ExampleViewAs() {
	number, err := mpi.TypeOf[int32]()
	if err != nil {
		panic(err)
	}
	other, err := mpi.TypeVector(3, 1, 2, number)
	if err == nil {
		err = other.Commit()
	}
	if err != nil {
		panic(err)
	}
	v := mpi.ViewAs([]int32{0, 1, 2, 3, 4, 5}, 1, other, 1)
	b, err := mpi.PackExternal(nil, v)
	fmt.Println(b, err)
	// Output: [0 0 0 1 0 0 0 3 0 0 0 5] <nil>
}
