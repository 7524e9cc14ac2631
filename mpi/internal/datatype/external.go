package datatype

import (
	"encoding/binary"
	"fmt"
	"math"
)

// ExternalSize returns the bytes of the elements in external32 data.
func (b *Buffer) ExternalSize() int64 {
	if b.size == 0 {
		return 0
	}
	return b.count * b.data.external // at most size
}

// PackExternal stores the elements in dst as external32: big-endian, without gaps, and with the lengths of the standard. It
// returns the number of bytes. Errors wrap ErrTruncated (nothing is stored) and ErrConversion: a long or wchar_t has a value
// that its shorter external form cannot have (values before it are stored). MPI-5.0 §5.3, §14.5.2.
func (b *Buffer) PackExternal(dst []byte) (int64, error) {
	x := external{mem: b.mem, ext: dst}
	return x.run(b, "pack")
}

// UnpackExternal loads the elements from external32 data and returns the number of bytes it took. The error wraps
// ErrTruncated if there are fewer bytes; then nothing is loaded. MPI-5.0 §5.3, §14.5.2.
func (b *Buffer) UnpackExternal(src []byte) (int64, error) {
	x := external{mem: b.mem, ext: src, unpack: true}
	return x.run(b, "unpack")
}

// external converts elements.
type external struct {
	mem, ext []byte
	at       int64 // position in ext
	unpack   bool
	failed   bool
	value    int64 // that has no external form
}

func (x *external) run(b *Buffer, call string) (int64, error) {
	size := b.ExternalSize()
	switch {
	case size == 0:
		return 0, nil
	case int64(len(x.ext)) < size:
		return 0, fmt.Errorf("%s %d elements as external32: %d bytes, need %d: %w", call, b.count, len(x.ext), size, ErrTruncated)
	}
	all := layout{n: b.count, stride: b.prog.extent, of: b.data}
	x.layout(&all, b.origin)
	if x.failed {
		return x.at, fmt.Errorf("%s %d elements as external32: %d: %w", call, b.count, x.value, ErrConversion)
	}
	return x.at, nil
}

// layout converts the elements of a layout at off in memory.
func (x *external) layout(l *layout, off int64) {
	switch {
	case l.of != nil && l.of.of == nil && l.of.parts == nil:
		x.elements(l.of.kind, off, l.stride, l.n)
	case l.of != nil:
		for i := int64(0); i < l.n && !x.failed; i++ {
			x.layout(l.of, off+i*l.stride)
		}
	case l.parts != nil:
		for i := range l.parts {
			if x.failed {
				return
			}
			x.layout(l.parts[i].of, off+l.parts[i].off)
		}
	default:
		x.elements(l.kind, off, 0, 1)
	}
}

// elements converts n elements of a kind, which are stride apart in memory.
func (x *external) elements(k Kind, off, stride, n int64) {
	size, ext := int64(k.Size()), int64(k.ExternalSize())
	if k == Bool || size != ext {
		x.values(k, off, stride, n)
		return
	}
	parts := size / int64(kindTable[k].align) // 2 if the elements are complex
	size /= parts
	if parts*size == stride { // numbers without gaps
		n, stride, parts = n*parts, size, 1
	}
	for i := range parts {
		dst, src := numbers{x.ext, x.at + i*size, parts * size}, numbers{x.mem, off + i*size, stride}
		if x.unpack {
			dst, src = src, dst
		}
		reverse(dst, src, size, n)
	}
	x.at += n * parts * size
}

// numbers are numbers of the same size in b, which begin at at and are step apart.
type numbers struct {
	b        []byte
	at, step int64
}

// reverse copies n numbers of a size from native to big-endian order, or back, which is the same.
func reverse(dst, src numbers, size, n int64) {
	to, from := dst.at, src.at
	switch size {
	case 1:
		if dst.step == 1 && src.step == 1 {
			copy(dst.b[to:to+n], src.b[from:from+n])
			return
		}
		for range n {
			dst.b[to] = src.b[from]
			to, from = to+dst.step, from+src.step
		}
	case 2:
		for range n {
			binary.BigEndian.PutUint16(dst.b[to:to+2], binary.NativeEndian.Uint16(src.b[from:from+2]))
			to, from = to+dst.step, from+src.step
		}
	case 4:
		for range n {
			binary.BigEndian.PutUint32(dst.b[to:to+4], binary.NativeEndian.Uint32(src.b[from:from+4]))
			to, from = to+dst.step, from+src.step
		}
	case 8:
		for range n {
			binary.BigEndian.PutUint64(dst.b[to:to+8], binary.NativeEndian.Uint64(src.b[from:from+8]))
			to, from = to+dst.step, from+src.step
		}
	}
}

// values converts n elements of a kind that is not only in another order in external data.
func (x *external) values(k Kind, off, stride, n int64) {
	size, ext := int64(k.Size()), int64(k.ExternalSize())
	for ; n > 0; n-- {
		m, e := x.mem[off:off+size], x.ext[x.at:x.at+ext]
		switch {
		case x.unpack:
			load(k, m, e)
		case !store(k, e, m):
			x.failed, x.value = true, narrowed(k, m)
			return
		}
		x.at += ext
		off += stride
	}
}

// load converts one value from external data.
func load(k Kind, m, e []byte) {
	switch k {
	case Bool:
		m[0] = 0
		if e[0] != 0 {
			m[0] = 1
		}
	case Long:
		binary.NativeEndian.PutUint64(m, uint64(int32(binary.BigEndian.Uint32(e))))
	case ULong:
		binary.NativeEndian.PutUint64(m, uint64(binary.BigEndian.Uint32(e)))
	case WChar:
		binary.NativeEndian.PutUint32(m, uint32(binary.BigEndian.Uint16(e)))
	}
}

// store converts one value to external data. It returns false if the external form is too short for it.
func store(k Kind, e, m []byte) bool {
	if k == Bool {
		load(k, e, m)
		return true
	}
	switch v := narrowed(k, m); {
	case k == Long && v == int64(int32(v)):
		binary.BigEndian.PutUint32(e, uint32(v))
	case k == ULong && 0 <= v && v <= math.MaxUint32:
		binary.BigEndian.PutUint32(e, uint32(v))
	case k == WChar && 0 <= v && v <= math.MaxUint16:
		binary.BigEndian.PutUint16(e, uint16(v))
	default:
		return false
	}
	return true
}

// narrowed returns a value of a kind whose external form is shorter. Those of ULong above MaxInt64 are negative.
func narrowed(k Kind, m []byte) int64 {
	if k == WChar {
		return int64(int32(binary.NativeEndian.Uint32(m)))
	}
	return int64(binary.NativeEndian.Uint64(m))
}
