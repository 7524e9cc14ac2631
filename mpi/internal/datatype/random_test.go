package datatype

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// TestRandomTypes compares random types with their type maps written out.
func TestRandomTypes(t *testing.T) {
	for seed := range randomSeeds {
		r := rand.New(rand.NewPCG(uint64(seed), 22))
		g := generator{r: r, max: 300}
		typ, m, err := g.typ(r.IntN(5))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := checkType(r, typ, m); err != nil {
			t.Fatalf("seed %d: %v: %v\nof %v", seed, typ.text(1000, 1000), err, m)
		}
	}
}

func checkType(r *rand.Rand, t *Type, m model) error {
	if err := checkSizes(t, m); err != nil {
		return err
	}
	if err := checkSignature(r, t, m); err != nil {
		return err
	}
	if err := checkEqual(t, m); err != nil {
		return err
	}
	if err := checkContents(t); err != nil {
		return err
	}
	t.Commit()
	count := int64(r.IntN(4))
	x := newMemory(r, m, count)
	b, err := t.Buffer(x.mem, x.origin, count)
	if err != nil {
		return err
	}
	if b.Size() != int64(len(x.packed)) {
		return fmt.Errorf("%d bytes of %d elements, want %d", b.Size(), count, len(x.packed))
	}
	if err := x.checkBounds(t, count); err != nil {
		return err
	}
	if err := errors.Join(x.checkPack(r, &b), x.checkBlocks(r, &b), x.checkOverlap(t, count)); err != nil {
		return err
	}
	return errors.Join(x.checkUnpack(r, t, count), x.checkExternal(&b, m, count))
}

func checkSizes(t *Type, m model) error {
	lb, extent := t.Extent()
	if lb != m.lb || extent != m.extent() {
		return fmt.Errorf("bounds %d and extent %d, want %d and %d", lb, extent, m.lb, m.extent())
	}
	lo, hi := m.trueBounds()
	if trueLB, trueExtent := t.TrueExtent(); trueLB != lo || trueExtent != hi-lo {
		return fmt.Errorf("true bound %d and extent %d, want %d and %d", trueLB, trueExtent, lo, hi-lo)
	}
	size, external, kinds := 0, 0, map[Kind]bool{}
	for _, e := range m.entries {
		size += e.kind.Size()
		external += e.kind.ExternalSize()
		kinds[e.kind] = true
	}
	if t.Size() != int64(size) || t.ExternalSize() != int64(external) || t.Elements() != int64(len(m.entries)) {
		return fmt.Errorf("size %d, external %d, elements %d, want %d, %d, %d", t.Size(), t.ExternalSize(), t.Elements(), size,
			external, len(m.entries))
	}
	if k := t.Kind(); k != 0 != (len(kinds) == 1) || k != 0 && k != m.entries[0].kind {
		return fmt.Errorf("kind %v of %v", k, kinds)
	}
	return nil
}

// sizeIs reports whether the first count basic elements of a type have n bytes.
func sizeIs(t *Type, count, n int64) bool {
	got, ok := t.SizeOf(count)
	return ok && got == n
}

func checkSignature(r *rand.Rand, t *Type, m model) error {
	var want Signature
	i := 0
	for k, n := range t.Runs() {
		for range n {
			if m.entries[i].kind != k {
				return fmt.Errorf("element %d is %v, want %v", i, k, m.entries[i].kind)
			}
			i++
		}
	}
	if i != len(m.entries) {
		return fmt.Errorf("runs of %d elements, want %d", i, len(m.entries))
	}
	prefix := map[int64]Signature{0: {}}
	size, elements := int64(0), int64(0)
	for range 2 {
		for _, e := range m.entries {
			want = want.Concat(OfKind(e.kind).Signature())
			size += int64(e.kind.Size())
			prefix[size] = want
			if elements++; !sizeIs(t, elements, size) {
				return fmt.Errorf("%d elements do not have %d bytes", elements, size)
			}
		}
	}
	if t.Signature().Repeat(2) != want || t.Signature().Concat(t.Signature()) != want {
		return errors.New("the signature is not that of the sequence")
	}
	n := int64(r.IntN(int(size + 1)))
	s, ok := t.SignatureOf(n)
	if p, whole := prefix[n]; ok != whole || ok && s != p {
		return fmt.Errorf("signature of %d bytes: %v %v, want %v %v", n, s, ok, p, whole)
	}
	return nil
}

// checkEqual compares a type with one that is made of the written type map, and with one that differs.
func checkEqual(t *Type, m model) error {
	n := len(m.entries)
	ones, displs, types := slices.Repeat([]int64{1}, n), make([]int64, n), make([]*Type, n)
	for i, e := range m.entries {
		displs[i], types[i] = e.disp, OfKind(e.kind)
	}
	u, err := Struct(ones, displs, types)
	if err != nil {
		return err
	}
	if m.marked {
		if u, err = Resized(m.lb, m.extent(), u); err != nil {
			return err
		}
	}
	if !t.Equal(u) || !u.Equal(t) {
		return errors.New("differs from the type map written out")
	}
	if n == 0 {
		return nil
	}
	displs[n/2]++
	moved, err := Struct(ones, displs, types)
	if err != nil {
		return err
	}
	if moved, err = Resized(m.lb, m.extent(), moved); err != nil {
		return err
	}
	if t.Equal(moved) {
		return errors.New("is equal to a type with another displacement")
	}
	return nil
}

// checkContents makes the type again from its contents.
func checkContents(t *Type) error {
	c, err := t.Contents()
	if t.contents.Combiner == CombinerNamed {
		if !errors.Is(err, ErrNamed) {
			return fmt.Errorf("contents of a predefined type: %v", err)
		}
		return nil
	}
	if combiner, ints, addrs, types := t.Envelope(); err != nil || combiner != c.Combiner || ints != len(c.Ints) ||
		addrs != len(c.Addrs) || types != len(c.Types) {
		return fmt.Errorf("envelope %v %d %d %d, contents %v", combiner, ints, addrs, types, err)
	}
	again, err := fromContents(c)
	if err != nil || !again.Equal(t) {
		return fmt.Errorf("made again from its contents: %v %v", again, err)
	}
	return nil
}

func fromContents(c Contents) (*Type, error) {
	n := int64(0)
	if len(c.Ints) > 0 {
		n = c.Ints[0]
	}
	switch i := c.Ints; c.Combiner {
	case CombinerDup:
		return Dup(c.Types[0])
	case CombinerContiguous:
		return Contiguous(n, c.Types[0])
	case CombinerVector:
		return Vector(n, i[1], i[2], c.Types[0])
	case CombinerHVector:
		return HVector(n, i[1], c.Addrs[0], c.Types[0])
	case CombinerIndexed:
		return Indexed(i[1:n+1], i[n+1:], c.Types[0])
	case CombinerHIndexed:
		return HIndexed(i[1:], c.Addrs, c.Types[0])
	case CombinerIndexedBlock:
		return IndexedBlock(i[1], i[2:], c.Types[0])
	case CombinerHIndexedBlock:
		return HIndexedBlock(i[1], c.Addrs, c.Types[0])
	case CombinerStruct:
		return Struct(i[1:], c.Addrs, c.Types)
	case CombinerSubarray:
		return Subarray(i[1:n+1], i[n+1:2*n+1], i[2*n+1:3*n+1], Order(i[3*n+1]), c.Types[0])
	case CombinerDarray:
		d := i[2]
		distribs := make([]Distribution, d)
		for j := range distribs {
			distribs[j] = Distribution(i[3+d+int64(j)])
		}
		return Darray(n, i[1], i[3:3+d], distribs, i[3+2*d:3+3*d], i[3+3*d:3+4*d], Order(i[3+4*d]), c.Types[0])
	}
	return Resized(c.Addrs[0], c.Addrs[1], c.Types[0])
}

// memory is the memory of elements, and where each packed byte is in it.
type memory struct {
	mem    []byte
	origin int64
	packed []int64 // offset in mem of each packed byte
}

// newMemory returns random memory of exactly the length that count elements need, plus a few bytes.
func newMemory(r *rand.Rand, m model, count int64) *memory {
	x := &memory{}
	lo, hi := m.trueBounds()
	if count > 0 && len(m.entries) > 0 {
		x.origin = -lo
		x.mem = make([]byte, hi-lo+(count-1)*m.extent())
	}
	for i := range count {
		for _, e := range m.entries {
			for j := range e.kind.Size() {
				x.packed = append(x.packed, x.origin+i*m.extent()+e.disp+int64(j))
			}
		}
	}
	for i := range x.mem {
		x.mem[i] = byte(r.Uint32())
	}
	return x
}

// bytes returns the packed bytes [from, to).
func (x *memory) bytes(from, to int64) []byte {
	b := make([]byte, 0, to-from)
	for _, at := range x.packed[from:to] {
		b = append(b, x.mem[at])
	}
	return b
}

// interval returns a random part of the packed bytes.
func (x *memory) interval(r *rand.Rand) (from, to int64) {
	n := len(x.packed) + 1
	from, to = int64(r.IntN(n)), int64(r.IntN(n))
	return min(from, to), max(from, to)
}

// checkBounds passes too little memory.
func (x *memory) checkBounds(t *Type, count int64) error {
	if len(x.packed) == 0 {
		return nil
	}
	_, short := t.Buffer(x.mem[:len(x.mem)-1], x.origin, count)
	_, low := t.Buffer(x.mem, x.origin-1, count)
	_, high := t.Buffer(x.mem, x.origin+1, count)
	for _, err := range []error{short, low, high} {
		if !errors.Is(err, ErrBounds) {
			return fmt.Errorf("out of bounds: %v", err)
		}
	}
	return nil
}

func (x *memory) checkPack(r *rand.Rand, b *Buffer) error {
	all := x.bytes(0, b.Size())
	for i := range 4 {
		from, to := x.interval(r)
		if i == 0 {
			from, to = 0, b.Size()
		}
		got := make([]byte, to-from, to-from+1)
		if n := b.Pack(got, from); n != len(got) || !bytes.Equal(got, all[from:to]) {
			return fmt.Errorf("pack [%d, %d): %d bytes\n% x, want\n% x", from, to, n, got, all[from:to])
		}
	}
	if n := b.Pack(make([]byte, 3), b.Size()); n != 0 {
		return fmt.Errorf("pack at the end: %d bytes", n)
	}
	if span := b.Span(); len(span) != len(x.mem) || len(span) > 0 && &span[0] != &x.mem[0] {
		return fmt.Errorf("spans %d bytes, want %d", len(span), len(x.mem))
	}
	if mem, ok := b.Contiguous(); ok && !bytes.Equal(mem, all) {
		return errors.New("is said to be contiguous, but is not")
	}
	return nil
}

func (x *memory) checkBlocks(r *rand.Rand, b *Buffer) error {
	from, to := x.interval(r)
	want := x.packed[from:to]
	for at := from; at < to; {
		out := make([]fabric.Block, 1+r.IntN(4))
		n, next := b.Blocks(out, at, to)
		if n == 0 || next <= at || next > to || n < len(out) && next != to {
			return fmt.Errorf("%d segments of [%d, %d) from %d to %d", n, from, to, at, next)
		}
		for i, s := range out[:n] {
			if i > 0 && out[i-1].Off+out[i-1].Len == s.Off {
				return fmt.Errorf("two adjacent segments in %v", out[:n])
			}
			for j := range s.Len {
				if len(want) == 0 || x.origin+s.Off+j != want[0] {
					return fmt.Errorf("segments %v of [%d, %d), at byte %d", out[:n], at, to, to-int64(len(want)))
				}
				want = want[1:]
			}
			if &b.Slice(s)[0] != &x.mem[x.origin+s.Off] {
				return fmt.Errorf("memory of %v", s)
			}
		}
		at = next
	}
	if len(want) != 0 {
		return fmt.Errorf("segments lack %d bytes of [%d, %d)", len(want), from, to)
	}
	return nil
}

// overlaps reports whether two packed bytes are at one place.
func (x *memory) overlaps() bool {
	used := make([]bool, len(x.mem))
	for _, at := range x.packed {
		if used[at] {
			return true
		}
		used[at] = true
	}
	return false
}

func (x *memory) checkOverlap(t *Type, count int64) error {
	for range 2 { // the second time the result is known
		if err := t.CheckOverlap(count); errors.Is(err, ErrOverlap) != x.overlaps() {
			return fmt.Errorf("overlap of %d elements: %v, want %v", count, err, x.overlaps())
		}
	}
	return nil
}

// checkUnpack unpacks everything in random pieces, in random order, and compares all memory.
func (x *memory) checkUnpack(r *rand.Rand, t *Type, count int64) error {
	if x.overlaps() {
		return nil
	}
	mem := bytes.Clone(x.mem)
	want := bytes.Clone(x.mem)
	src := make([]byte, len(x.packed))
	for i := range src {
		src[i] = byte(r.Uint32())
		want[x.packed[i]] = src[i]
	}
	b, err := t.Buffer(mem, x.origin, count)
	if err != nil {
		return err
	}
	cuts := []int{0, len(src)}
	for range r.IntN(5) {
		cuts = append(cuts, r.IntN(len(src)+1))
	}
	slices.Sort(cuts)
	for _, i := range r.Perm(len(cuts) - 1) {
		if n := b.Unpack(src[cuts[i]:cuts[i+1]], int64(cuts[i])); n != cuts[i+1]-cuts[i] {
			return fmt.Errorf("unpacked %d bytes of %v", n, cuts)
		}
	}
	if !bytes.Equal(mem, want) {
		return fmt.Errorf("unpacked in pieces %v:\n% x, want\n% x", cuts, mem, want)
	}
	return nil
}

// checkExternal compares external data with the conversion of each element.
func (x *memory) checkExternal(b *Buffer, m model, count int64) error {
	var want, native []byte
	if x.overlaps() {
		return nil // a value may have no external form since a part of another is in it
	}
	for i := range count {
		for _, e := range m.entries {
			at := x.origin + i*m.extent() + e.disp
			v := x.mem[at : at+int64(e.kind.Size())]
			clampValue(e.kind, v)
			native = append(native, v...)
			want = append(want, externalOf(e.kind, v)...)
		}
	}
	got := make([]byte, len(want)+2)
	n, err := b.PackExternal(got)
	if err != nil || n != int64(len(want)) || n != b.ExternalSize() || !bytes.Equal(got[:n], want) {
		return fmt.Errorf("external %d %v % x, want % x", n, err, got, want)
	}
	if n, err = b.UnpackExternal(want); err != nil || n != int64(len(want)) || !bytes.Equal(x.bytes(0, b.Size()), native) {
		return fmt.Errorf("from external: %d %v", n, err)
	}
	return nil
}

// clampValue changes a value such that it has an external form that is converted back to it.
func clampValue(k Kind, v []byte) {
	switch k {
	case Bool:
		v[0] &= 1
	case Long:
		binary.NativeEndian.PutUint64(v, uint64(int64(int32(binary.NativeEndian.Uint64(v)))))
	case ULong:
		binary.NativeEndian.PutUint64(v, uint64(uint32(binary.NativeEndian.Uint64(v))))
	case WChar:
		binary.NativeEndian.PutUint32(v, uint32(uint16(binary.NativeEndian.Uint32(v))))
	}
}

// externalOf reverses the bytes of the numbers of a value, and takes the last ones of those that are shortened.
func externalOf(k Kind, v []byte) []byte {
	v = slices.Clone(v)
	slices.Reverse(v)
	if k == Complex64 || k == Complex128 {
		half := len(v) / 2
		return slices.Concat(v[half:], v[:half])
	}
	return v[len(v)-k.ExternalSize():]
}

// TestBlockLengths copies blocks of all lengths at which the copies differ, at strides of all kinds: in one loop, in two, and
// at displacements without a pattern.
func TestBlockLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lens := []int64{24, 31, 32, 33, 40, 48, 63, 64, 65, 66, 100}
	for l := range int64(17) {
		lens = append(lens, l+1)
	}
	for _, l := range lens {
		block := must(Contiguous(l, OfKind(Byte)))
		few := must(HVector(3, 1, l+1, block))
		for _, stride := range []int64{l + 1, 128, 512, -1024} {
			line := must(HVector(21, 1, stride, block))
			displs := []int64{0, 3 * stride, stride, 9 * stride, 4*stride + 1, -2 * stride}
			for _, typ := range []*Type{line, must(HVector(2, 1, 22*stride, line)), must(HVector(12, 1, 4*stride, few)),
				must(HIndexedBlock(1, displs, block))} {
				typ.Commit()
				if err := checkBlocks(r, typ); err != nil {
					t.Fatalf("blocks of %d bytes at stride %d: %s: %v", l, stride, typ.text(1000, 1000), err)
				}
			}
		}
	}
}

// checkBlocks compares the copies of a type with its segments, of which there are at most 64.
func checkBlocks(r *rand.Rand, typ *Type) error {
	lo, extent := typ.TrueExtent()
	x := memory{mem: make([]byte, extent), origin: -lo}
	b, err := typ.Buffer(x.mem, x.origin, 1)
	if err != nil {
		return err
	}
	segs := make([]fabric.Block, 64)
	n, next := b.Blocks(segs, 0, b.Size())
	if next != b.Size() {
		return fmt.Errorf("%d segments up to %d", n, next)
	}
	for _, s := range segs[:n] {
		for i := range s.Len {
			x.packed = append(x.packed, x.origin+s.Off+i)
		}
	}
	for i := range x.mem {
		x.mem[i] = byte(i * 7 / 3)
	}
	return errors.Join(x.checkPack(r, &b), x.checkUnpack(r, typ, 1))
}

// TestTransposed copies matrices by columns, in fragments.
func TestTransposed(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, l := range []int64{1, 2, 4, 8, 12, 16, 32} {
		for _, c := range []struct{ rows, columns, stride int64 }{{70, 21, 700}, {66, 8, -1024}, {64, 9, 516}} {
			column := must(HVector(c.rows, 1, c.stride, must(Contiguous(l, OfKind(Byte)))))
			typ := committed(HVector(c.columns, 1, l, column))
			lo, extent := typ.TrueExtent()
			x := memory{mem: make([]byte, extent), origin: -lo}
			for i := range c.columns {
				for j := range c.rows * l {
					x.packed = append(x.packed, x.origin+i*l+j/l*c.stride+j%l)
				}
			}
			for i := range x.mem {
				x.mem[i] = byte(i * 7 / 3)
			}
			b, err := typ.Buffer(x.mem, x.origin, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(x.checkPack(r, &b), x.checkUnpack(r, typ, 1)); err != nil {
				t.Fatalf("%d columns of %d rows of %d bytes: %v", c.columns, c.rows, l, err)
			}
		}
	}
}

// TestLargeLists compares types with lists in lists, some of which are too long to be dissolved.
func TestLargeLists(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	g := generator{r: r}
	inner, m := OfKind(Int16), model{entries: []entry{{Int16, 0}}}.bound()
	for _, n := range []int64{60, 300} {
		lens, displs := g.list(n, 3, 1), g.list(n, 5, 0)
		for i := range displs {
			displs[i] += int64(i) * 6 * m.extent()
		}
		inner, m = must(HIndexed(lens, displs, inner)), m.copies(m.blocks(lens, displs))
	}
	if top := compile(inner).top.body.op; top.kind != opList || len(top.items) < 100 {
		t.Fatalf("the type is compiled to an op of kind %d with %d items", top.kind, len(top.items))
	}
	for range 2 {
		if err := checkType(r, inner, m); err != nil {
			t.Fatal(err)
		}
	}
}
