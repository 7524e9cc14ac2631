package mpi_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// typeOf returns the datatype of T, which is one of elements.
func typeOf[T any]() *mpi.Datatype {
	t, err := mpi.TypeOf[T]()
	if err != nil {
		panic(err)
	}
	return t
}

// constructed returns one datatype of each constructor, of float64, with its size and its extent.
func constructed() map[string]struct {
	make         func(old *mpi.Datatype) (*mpi.Datatype, error)
	size, extent int
	contents     mpi.Contents
} {
	type row = struct {
		make         func(old *mpi.Datatype) (*mpi.Datatype, error)
		size, extent int
		contents     mpi.Contents
	}
	contents := func(c mpi.Combiner, ints, addrs []int) mpi.Contents {
		return mpi.Contents{Combiner: c, Ints: append([]int{}, ints...), Addrs: append([]int{}, addrs...)}
	}
	return map[string]row{
		"contiguous": {func(old *mpi.Datatype) (*mpi.Datatype, error) { return mpi.TypeContiguous(3, old) }, 24, 24,
			contents(mpi.CombinerContiguous, []int{3}, nil)},
		"vector": {func(old *mpi.Datatype) (*mpi.Datatype, error) { return mpi.TypeVector(3, 2, 5, old) }, 48, 96,
			contents(mpi.CombinerVector, []int{3, 2, 5}, nil)},
		"hvector": {func(old *mpi.Datatype) (*mpi.Datatype, error) { return mpi.TypeHvector(3, 2, 40, old) }, 48, 96,
			contents(mpi.CombinerHvector, []int{3, 2}, []int{40})},
		"indexed": {func(old *mpi.Datatype) (*mpi.Datatype, error) { return mpi.TypeIndexed([]int{1, 2}, []int{4, 0}, old) },
			24, 40, contents(mpi.CombinerIndexed, []int{2, 1, 2, 4, 0}, nil)},
		"hindexed": {func(old *mpi.Datatype) (*mpi.Datatype, error) {
			return mpi.TypeHindexed([]int{1, 2}, []int{32, 0}, old)
		},
			24, 40, contents(mpi.CombinerHindexed, []int{2, 1, 2}, []int{32, 0})},
		"indexed_block": {func(old *mpi.Datatype) (*mpi.Datatype, error) { return mpi.TypeIndexedBlock(2, []int{4, 0}, old) },
			32, 48, contents(mpi.CombinerIndexedBlock, []int{2, 2, 4, 0}, nil)},
		"hindexed_block": {func(old *mpi.Datatype) (*mpi.Datatype, error) { return mpi.TypeHindexedBlock(2, []int{32, 0}, old) },
			32, 48, contents(mpi.CombinerHindexedBlock, []int{2, 2}, []int{32, 0})},
		"struct": {func(old *mpi.Datatype) (*mpi.Datatype, error) {
			return mpi.TypeStruct([]int{2}, []int{8}, []*mpi.Datatype{old})
		}, 16, 16, contents(mpi.CombinerStruct, []int{1, 2}, []int{8})},
		"subarray": {func(old *mpi.Datatype) (*mpi.Datatype, error) {
			return mpi.TypeSubarray([]int{4, 6}, []int{2, 3}, []int{1, 2}, mpi.OrderC, old)
		}, 48, 192, contents(mpi.CombinerSubarray, []int{2, 4, 6, 2, 3, 1, 2, int(mpi.OrderC)}, nil)},
		"darray": {func(old *mpi.Datatype) (*mpi.Datatype, error) {
			return mpi.TypeDarray(2, 1, []int{6}, []mpi.Distribution{mpi.DistributeCyclic}, []int{2}, []int{2}, mpi.OrderFortran, old)
		}, 16, 48, contents(mpi.CombinerDarray, []int{2, 1, 1, 6, int(mpi.DistributeCyclic), 2, 2, int(mpi.OrderFortran)}, nil)},
		"resized": {func(old *mpi.Datatype) (*mpi.Datatype, error) { return old.Resized(-8, 64) }, 8, 64,
			contents(mpi.CombinerResized, nil, []int{-8, 64})},
		"dup": {func(old *mpi.Datatype) (*mpi.Datatype, error) { return old.Dup() }, 8, 8,
			contents(mpi.CombinerDup, nil, nil)},
	}
}

// TestConstructors: sizes and extents, the contents of each constructor, and that the contents name the old datatype.
func TestConstructors(t *testing.T) {
	for name, c := range constructed() {
		old := typeOf[float64]()
		x, err := c.make(old)
		if err != nil {
			t.Fatal(name, err)
		}
		size, errSize := x.Size()
		_, extent, errExtent := x.Extent()
		if err := errors.Join(errSize, errExtent); err != nil || size != c.size || extent != c.extent {
			t.Errorf("%s: size %d and extent %d, want %d and %d: %v", name, size, extent, c.size, c.extent, err)
		}
		got, err := x.Contents()
		e, errEnvelope := x.Envelope()
		c.contents.Types = []*mpi.Datatype{old}
		if err := errors.Join(err, errEnvelope); err != nil || !reflect.DeepEqual(got, c.contents) {
			t.Errorf("%s: contents %v, want %v: %v", name, got, c.contents, err)
		}
		if want := (mpi.Envelope{Combiner: got.Combiner, Ints: len(got.Ints), Addrs: len(got.Addrs), Types: 1}); e != want {
			t.Errorf("%s: envelope %v, want %v", name, e, want)
		}
		if e.Combiner.String() != name || name != "dup" && !strings.HasPrefix(x.String(), name+"(") {
			t.Errorf("%s: the combiner is %q, and the datatype %q", name, e.Combiner, x)
		}
		if x.Committed() != (name == "dup") || x.Commit() != nil || !x.Committed() {
			t.Errorf("%s: not committed by Commit, or before", name)
		}
	}
}

// TestContentsOfDerived: derived datatypes in contents are values of their own.
func TestContentsOfDerived(t *testing.T) {
	row, err1 := mpi.TypeContiguous(3, typeOf[int32]())
	plane, err2 := mpi.TypeVector(2, 1, 4, row)
	c, err3 := plane.Contents()
	if err := errors.Join(err1, err2, err3, row.Free()); err != nil {
		t.Fatal(err)
	}
	inner, err := c.Types[0].Contents()
	if err != nil || inner.Types[0] != typeOf[int32]() {
		t.Errorf("the contents of the contents are %v: %v", inner, err)
	}
	if err := errors.Join(c.Types[0].Free(), plane.Commit()); err != nil {
		t.Error("a datatype depends on those of which it was made:", err)
	}
}

// TestBounds: bounds are those of the data unless Resized sets others, which the true bounds ignore.
func TestBounds(t *testing.T) {
	v, err1 := mpi.TypeVector(2, 1, -3, typeOf[int32]())
	r, err2 := v.Resized(-100, 200)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		t    *mpi.Datatype
		want [4]int
	}{{v, [4]int{-12, 16, -12, 16}}, {r, [4]int{-100, 200, -12, 16}}} {
		var got [4]int
		got[0], got[1], err1 = c.t.Extent()
		got[2], got[3], err2 = c.t.TrueExtent()
		if err := errors.Join(err1, err2); err != nil || got != c.want {
			t.Errorf("%v: bounds %v, want %v: %v", c.t, got, c.want, err)
		}
	}
}

// TestTypeOf: Go types, and the fields that cannot be elements.
func TestTypeOf(t *testing.T) {
	type padded struct {
		A int8
		_ int16
		B float64
		C [3]bool
	}
	x, err := mpi.TypeOf[padded]()
	if err != nil {
		t.Fatal(err)
	}
	size, _ := x.Size()
	_, extent, _ := x.Extent()
	name, _ := x.Name()
	if size != 12 || extent != 24 || name != "mpi_test.padded" || !x.Committed() || x != typeOf[padded]() {
		t.Errorf("%v: size %d, extent %d, name %q", x, size, extent, name)
	}
	type hidden struct {
		ID    int
		Outer struct{ Names []string }
	}
	_, err = mpi.TypeOf[hidden]()
	if err := ofClass(err, mpi.ErrType); err != nil {
		t.Error(err)
	}
	if !strings.Contains(fmt.Sprint(err), "hidden.Outer.Names") {
		t.Errorf("%q does not name the field", err)
	}
	for _, err := range []error{second(mpi.TypeOf[*int]()), second(mpi.TypeOf[string]()), second(mpi.TypeOf[any]()),
		second(mpi.TypeOf[func()]()), second(mpi.TypeOf[map[int]int]())} {
		if err := ofClass(err, mpi.ErrType); err != nil {
			t.Error(err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestPredefined: names, sizes, and what cannot be changed.
func TestPredefined(t *testing.T) {
	x, err := mpi.TypeNamed("MPI_LONG")
	y, err2 := mpi.TypeMatchSize(mpi.TypeClassReal, 4)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	name, _ := x.Name()
	if e, err := x.Envelope(); err != nil || e != (mpi.Envelope{Combiner: mpi.CombinerNamed}) || name != "MPI_LONG" {
		t.Errorf("MPI_LONG has the name %q and the envelope %v: %v", name, e, err)
	}
	if name, _ := y.Name(); name != "MPI_REAL4" {
		t.Errorf("4 bytes of class real are %q", name)
	}
	if err := errors.Join(ofClass(second(x.Contents()), mpi.ErrType), ofClass(x.Free(), mpi.ErrType),
		ofClass(x.SetName("x"), mpi.ErrType), ofClass(second(mpi.TypeNamed("MPI_LONG_DOUBLE")), mpi.ErrArg),
		ofClass(second(mpi.TypeMatchSize(mpi.TypeClassReal, 3)), mpi.ErrArg),
		ofClass(second(mpi.TypeMatchSize(mpi.TypeClassReal+256, 4)), mpi.ErrArg),
		ofClass(typeOf[int]().Free(), mpi.ErrType)); err != nil {
		t.Error(err)
	}
	for class, want := range map[mpi.TypeClass]string{mpi.TypeClassInteger: "MPI_INTEGER8", mpi.TypeClassComplex: "MPI_COMPLEX8"} {
		if x, err := mpi.TypeMatchSize(class, 8); err != nil || x.String() != want {
			t.Errorf("class %d: %v, want %s: %v", class, x, want, err)
		}
	}
}

// TestWrongDatatypes: every wrong argument of a constructor is an error of the class that the documentation names.
func TestWrongDatatypes(t *testing.T) {
	f := typeOf[float64]()
	freed, err := f.Dup()
	if err := errors.Join(err, freed.Free()); err != nil {
		t.Fatal(err)
	}
	var none *mpi.Datatype
	two := []int{1, 1}
	for name, c := range map[string]struct {
		err   error
		class mpi.Class
	}{
		"negative count":    {second(mpi.TypeContiguous(-1, f)), mpi.ErrCount},
		"negative length":   {second(mpi.TypeVector(2, -1, 3, f)), mpi.ErrCount},
		"negative block":    {second(mpi.TypeIndexed([]int{1, -1}, two, f)), mpi.ErrCount},
		"negative extent":   {second(f.Resized(0, -1)), mpi.ErrArg},
		"large extent":      {second(mpi.TypeContiguous(math.MaxInt, f)), mpi.ErrArg},
		"large stride":      {second(mpi.TypeHvector(3, 1, math.MaxInt, f)), mpi.ErrArg},
		"large upper bound": {second(f.Resized(math.MaxInt, 1)), mpi.ErrArg},
		"lengths differ":    {second(mpi.TypeHindexed([]int{1}, two, f)), mpi.ErrArg},
		"no type":           {second(mpi.TypeContiguous(1, none)), mpi.ErrType},
		"freed type":        {second(mpi.TypeVector(1, 1, 1, freed)), mpi.ErrType},
		"no type in struct": {second(mpi.TypeStruct(two, two, []*mpi.Datatype{f, nil})), mpi.ErrType},
		"empty dimension":   {second(mpi.TypeSubarray([]int{0}, []int{0}, []int{0}, mpi.OrderC, f)), mpi.ErrArg},
		"outside":           {second(mpi.TypeSubarray([]int{4}, []int{2}, []int{3}, mpi.OrderC, f)), mpi.ErrArg},
		"order":             {second(mpi.TypeSubarray([]int{4}, []int{2}, []int{2}, mpi.OrderC+256, f)), mpi.ErrArg},
		"distribution": {second(mpi.TypeDarray(1, 0, []int{4}, []mpi.Distribution{mpi.DistributeNone + 256}, []int{1}, []int{1},
			mpi.OrderC, f)), mpi.ErrArg},
		"grid": {second(mpi.TypeDarray(4, 0, []int{4}, []mpi.Distribution{mpi.DistributeBlock}, []int{mpi.DistributeDefault},
			[]int{3}, mpi.OrderC, f)), mpi.ErrArg},
		"commit freed":   {freed.Commit(), mpi.ErrType},
		"free freed":     {freed.Free(), mpi.ErrType},
		"dup freed":      {second(freed.Dup()), mpi.ErrType},
		"size freed":     {second(freed.Size()), mpi.ErrType},
		"name freed":     {second(freed.Name()), mpi.ErrType},
		"set name freed": {freed.SetName("x"), mpi.ErrType},
		"envelope freed": {second(freed.Envelope()), mpi.ErrType},
		"contents freed": {second(freed.Contents()), mpi.ErrType},
		"commit none":    {none.Commit(), mpi.ErrType},
		"free none":      {none.Free(), mpi.ErrType},
	} {
		if err := ofClass(c.err, c.class); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if none.Committed() || freed.Committed() || none.String() == "" || freed.String() == "" {
		t.Error("a datatype that is nil or freed has a state")
	}
}

// TestTypeAttributes: attributes of datatypes are copied by Dup and deleted by Free, by callbacks that can fail.
func TestTypeAttributes(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		var log []string
		fail := errors.New("not now")
		var failing error
		key := mpi.NewTypeKeyval(p,
			func(_ *mpi.Datatype, s string) (string, bool, error) { return s + "'", s != "alone", failing },
			func(_ *mpi.Datatype, s string) error { log = append(log, s); return failing })
		x, err := mpi.TypeContiguous(2, typeOf[int]())
		if err := errors.Join(err, key.Set(x, "a"), key.Set(x, "b"), x.SetName("pair")); err != nil {
			return err
		}
		y, err := x.Dup()
		if err != nil {
			return err
		}
		s, ok, err := key.Get(y)
		name, _ := y.Name()
		if err != nil || s != "b'" || !ok || name != "" || x.String() != "pair" {
			return fmt.Errorf("the copy is %q, %v of %q: %w", s, ok, name, err)
		}
		failing = fail
		if err := errors.Join(ofClass(x.Free(), mpi.ErrOther), ofClass(second(x.Dup()), mpi.ErrOther),
			ofClass(key.Delete(x), mpi.ErrOther)); err != nil {
			return err
		}
		failing = nil
		err = errors.Join(x.Free(), key.Delete(y), ofClass(key.Set(x, ""), mpi.ErrType),
			ofClass(key.Set(typeOf[int](), ""), mpi.ErrType))
		_, ok, errGet := key.Get(y)
		if want := []string{"a", "b", "b", "b", "b'"}; err != nil || ok || errGet != nil || !reflect.DeepEqual(log, want) {
			return fmt.Errorf("deleted %q, want %q; %v, %v: %w", log, want, ok, errGet, err)
		}
		return wrongTypeKeys(p, key, y)
	})
}

// wrongTypeKeys checks keys that do not exist, belong to another process, or have callbacks that
// panic.
func wrongTypeKeys(p *mpi.Process, key mpi.TypeKeyval[string], x *mpi.Datatype) error {
	var none mpi.TypeKeyval[string]
	panics := mpi.NewTypeKeyval(p, nil, func(_ *mpi.Datatype, n int) error { panic(n) })
	if err := panics.Set(x, 7); err != nil {
		return err
	}
	_, _, errNone := none.Get(x)
	again := key
	return errors.Join(ofClass(none.Set(x, ""), mpi.ErrKeyval), ofClass(errNone, mpi.ErrKeyval),
		ofClass(none.Delete(x), mpi.ErrKeyval), ofClass(none.Free(), mpi.ErrKeyval), ofClass(x.Free(), mpi.ErrOther), key.Free(),
		ofClass(again.Set(x, ""), mpi.ErrKeyval),
		check(key == none && key.Number() == mpi.KeyvalInvalid && panics.Number() != mpi.KeyvalInvalid, "the freed key is %v", key))
}

func TestDupFailsWithoutType(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		key := mpi.NewTypeKeyval(p, func(*mpi.Datatype, int) (int, bool, error) { panic("no copy") }, nil)
		d, err := typeOf[int]().Dup()
		if err := errors.Join(err, key.Set(d, 1)); err != nil {
			return err
		}
		e, err := d.Dup()
		return errors.Join(check(err != nil && e == nil, "%v and %v", e, err), d.Free())
	})
}
