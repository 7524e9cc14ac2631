package datatype

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// The benchmarks pack and unpack by a compiled type (type) and by a loop that is written for the case (loop).

// recordType is a struct of mixed fields with padding: two float64, an int32, a bool, two float32 and an int32. 33 of 40 bytes
// are data.
var recordType = must(Resized(0, 40, must(Struct([]int64{2, 1, 1, 2, 1}, []int64{0, 16, 20, 24, 32},
	[]*Type{OfKind(Float64), OfKind(Int32), OfKind(Bool), OfKind(Float32), OfKind(Int32)}))))

// benchCase is a type, and the loops over a slice for the same.
type benchCase struct {
	name   string
	t      *Type
	count  int64
	pack   func(dst, mem []byte)
	unpack func(mem, src []byte)
}

// column is n blocks of 8 bytes, 1 KiB apart.
func column(name string, n int) benchCase {
	return benchCase{name, must(HVector(int64(n), 1, 1024, OfKind(Float64))), 1,
		func(dst, mem []byte) { packColumn(words(dst)[:n], words(mem)) },
		func(mem, src []byte) { unpackColumn(words(mem), words(src)[:n]) }}
}

func packColumn(dst, mem []uint64) {
	for i := range dst {
		dst[i] = mem[128*i]
	}
}

func unpackColumn(mem, src []uint64) {
	for i, x := range src {
		mem[128*i] = x
	}
}

// face is the inside of a face of a cube of n float64 in each dimension, without the edges; axis is its normal.
func face(name string, n int, axis int) benchCase {
	sizes, sub, starts := make([]int64, 3), make([]int64, 3), make([]int64, 3)
	strides := []int{n * n, n, 1}
	for i := range sizes {
		sizes[i], sub[i], starts[i] = int64(n), int64(n-2), 1
	}
	sub[axis] = 1
	outer, inner := strides[(axis+1)%3], strides[(axis+2)%3]
	if outer < inner {
		outer, inner = inner, outer
	}
	first := n*n + n + 1
	return benchCase{name, must(Subarray(sizes, sub, starts, OrderC, OfKind(Float64))), 1,
		func(dst, mem []byte) { packFace(words(dst), words(mem)[first:], n-2, outer, inner) },
		func(mem, src []byte) { unpackFace(words(mem)[first:], words(src), n-2, outer, inner) }}
}

func packFace(dst, mem []uint64, n, outer, inner int) {
	for i := range n {
		row, to := mem[i*outer:], dst[i*n:i*n+n]
		if inner == 1 {
			copy(to, row)
			continue
		}
		for j := range to {
			to[j] = row[j*inner]
		}
	}
}

func unpackFace(mem, src []uint64, n, outer, inner int) {
	for i := range n {
		row, from := mem[i*outer:], src[i*n:i*n+n]
		if inner == 1 {
			copy(row, from)
			continue
		}
		for j, x := range from {
			row[j*inner] = x
		}
	}
}

// records is n structs, packed as 33 bytes each.
func records(name string, n int) benchCase {
	return benchCase{name, recordType, int64(n),
		func(dst, mem []byte) { packRecords(dst, mem, n) },
		func(mem, src []byte) { unpackRecords(mem, src, n) }}
}

func packRecords(dst, mem []byte, n int) {
	e := binary.NativeEndian
	for i := range n {
		d, m := (*[33]byte)(dst[33*i:]), (*[40]byte)(mem[40*i:])
		e.PutUint64(d[0:], e.Uint64(m[0:]))
		e.PutUint64(d[8:], e.Uint64(m[8:]))
		e.PutUint32(d[16:], e.Uint32(m[16:]))
		d[20] = m[20]
		e.PutUint64(d[21:], e.Uint64(m[24:]))
		e.PutUint32(d[29:], e.Uint32(m[32:]))
	}
}

func unpackRecords(mem, src []byte, n int) {
	e := binary.NativeEndian
	for i := range n {
		d, m := (*[33]byte)(src[33*i:]), (*[40]byte)(mem[40*i:])
		e.PutUint64(m[0:], e.Uint64(d[0:]))
		e.PutUint64(m[8:], e.Uint64(d[8:]))
		e.PutUint32(m[16:], e.Uint32(d[16:]))
		m[20] = d[20]
		e.PutUint64(m[24:], e.Uint64(d[21:]))
		e.PutUint32(m[32:], e.Uint32(d[29:]))
	}
}

// scatteredWords is n float64 at displacements without a pattern.
func scatteredWords(name string, n int) benchCase {
	displs := make([]int64, n)
	for i := range displs {
		displs[i] = int64(4*i + i*i%3)
	}
	return benchCase{name, must(IndexedBlock(1, displs, OfKind(Float64))), 1,
		func(dst, mem []byte) { packWords(words(dst)[:n], words(mem), displs) },
		func(mem, src []byte) { unpackWords(words(mem), words(src)[:n], displs) }}
}

func packWords(dst, mem []uint64, displs []int64) {
	for i, d := range displs[:len(dst)] {
		dst[i] = mem[d]
	}
}

func unpackWords(mem, src []uint64, displs []int64) {
	for i, d := range displs[:len(src)] {
		mem[d] = src[i]
	}
}

func BenchmarkCopy(b *testing.B) {
	for _, c := range []benchCase{
		column("column/4KiB", 512), column("column/64KiB", 8192), column("column/1MiB", 131072),
		records("struct/4KiB", 4096/33), records("struct/64KiB", 65536/33), records("struct/1MiB", 1<<20/33),
		face("face/x/30KiB", 64, 0), face("face/y/30KiB", 64, 1), face("face/z/30KiB", 64, 2), face("face/z/125KiB", 128, 2),
		scatteredWords("indexed/64KiB", 8192),
	} {
		c.t.Commit()
		lo, extent := c.t.TrueExtent()
		_, step := c.t.Extent()
		mem := bytes.Repeat([]byte{1}, int(lo+extent+(c.count-1)*step+64)) // not the zero page of the kernel
		buf, err := c.t.Buffer(mem, 0, c.count)
		if err != nil {
			b.Fatal(err)
		}
		packed := make([]byte, buf.Size()+64)
		run := func(name string, f func()) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.SetBytes(buf.Size())
				for b.Loop() {
					f()
				}
			})
		}
		run("pack/type", func() { buf.Pack(packed, 0) })
		run("pack/loop", func() { c.pack(packed, mem) })
		run("unpack/type", func() { buf.Unpack(packed, 0) })
		run("unpack/loop", func() { c.unpack(mem, packed) })
	}
}

// BenchmarkExternal converts float64.
func BenchmarkExternal(b *testing.B) {
	mem, ext := make([]byte, 1<<16), make([]byte, 1<<16)
	buf, err := OfKind(Float64).Buffer(mem, 0, 1<<13)
	b.SetBytes(1 << 16)
	for b.Loop() {
		if _, err := buf.PackExternal(ext); err != nil {
			b.Fatal(err)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkBlocks lists the blocks of a column.
func BenchmarkBlocks(b *testing.B) {
	t := committed(HVector(1<<10, 1, 1024, OfKind(Float64)))
	buf, err := t.Buffer(make([]byte, 1<<20), 0, 1)
	out := make([]fabric.Block, 1<<10)
	for b.Loop() {
		if n, _ := buf.Blocks(out, 0, buf.Size()); n != len(out) {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkCommit compiles a million displacements without a pattern.
func BenchmarkCommit(b *testing.B) {
	displs := make([]int64, 1<<20)
	for i := range displs {
		displs[i] = int64(4*i + i*i%3)
	}
	b.Run("construct", func(b *testing.B) {
		for b.Loop() {
			must(IndexedBlock(1, displs, OfKind(Float64)))
		}
	})
	b.Run("commit", func(b *testing.B) {
		for b.Loop() {
			committed(Dup(must(IndexedBlock(1, displs, OfKind(Float64)))))
		}
	})
}

// BenchmarkGather packs blocks of three float64, as coordinates are, and a matrix column by column.
func BenchmarkGather(b *testing.B) {
	displs := make([]int64, 1<<12)
	for i := range displs {
		displs[i] = int64(8*i + i*i%3)
	}
	column := must(Resized(0, 8, must(HVector(1<<10, 1, 1<<13, OfKind(Float64)))))
	for _, c := range []struct {
		name  string
		t     *Type
		count int64
	}{
		{"points", must(IndexedBlock(3, displs, OfKind(Float64))), 1},
		{"transpose", column, 1 << 10},
	} {
		c.t.Commit()
		buf, err := c.t.Buffer(bytes.Repeat([]byte{1}, 1<<23), 0, c.count)
		if err != nil {
			b.Fatal(err)
		}
		packed := bytes.Repeat([]byte{1}, int(buf.Size()))
		b.Run(c.name+"/pack", func(b *testing.B) {
			b.SetBytes(buf.Size())
			for b.Loop() {
				buf.Pack(packed, 0)
			}
		})
		b.Run(c.name+"/unpack", func(b *testing.B) {
			b.SetBytes(buf.Size())
			for b.Loop() {
				buf.Unpack(packed, 0)
			}
		})
	}
}

// BenchmarkShort measures what a message of one small element costs beside the copy.
func BenchmarkShort(b *testing.B) {
	pair := committed(Struct([]int64{1, 1}, []int64{0, 8}, []*Type{OfKind(Int32), OfKind(Float64)}))
	mem, packed := make([]byte, 64), make([]byte, 64)
	b.Run("buffer", func(b *testing.B) {
		for b.Loop() {
			if _, err := pair.Buffer(mem, 0, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pack", func(b *testing.B) {
		buf, err := pair.Buffer(mem, 0, 1)
		for b.Loop() {
			buf.Pack(packed, 0)
		}
		if err != nil {
			b.Fatal(err)
		}
	})
	b.Run("hash", func(b *testing.B) {
		s := pair.Signature()
		for b.Loop() {
			s = pair.Signature().Repeat(1000)
		}
		if s.Count != 2000 {
			b.Fatal(s)
		}
	})
}

// TestBenchLoops holds the loops of the benchmarks against the types.
func TestBenchLoops(t *testing.T) {
	for _, c := range []benchCase{column("column", 40), records("struct", 30), face("x", 8, 0), face("y", 8, 1), face("z", 8, 2),
		scatteredWords("indexed", 50)} {
		c.t.Commit()
		mem := make([]byte, 100000)
		for i := range mem {
			mem[i] = byte(math.Sqrt(float64(i)) * 77)
		}
		b, err := c.t.Buffer(mem, 0, c.count)
		if err != nil {
			t.Fatal(err)
		}
		got, want := make([]byte, b.Size()), make([]byte, b.Size())
		b.Pack(got, 0)
		c.pack(want, mem)
		if string(got) != string(want) {
			t.Errorf("%s: the loop packs other bytes than the type", c.name)
		}
	}
}
