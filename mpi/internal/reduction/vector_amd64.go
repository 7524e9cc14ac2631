package reduction

import "golang.org/x/sys/cpu"

// hasVector reports whether the machine has what the functions below need: AVX2, and conversions of Float16 (F16C). Every
// processor with AVX2 has these.
var hasVector = cpu.X86.HasAVX2

// The portable functions of the table, with AVX2.

//go:noescape
func sumInt32(dst, a, b []byte)

//go:noescape
func sumInt64(dst, a, b []byte)

//go:noescape
func sumFloat32(dst, a, b []byte)

//go:noescape
func sumFloat64(dst, a, b []byte)

//go:noescape
func prodInt32(dst, a, b []byte)

//go:noescape
func prodFloat32(dst, a, b []byte)

//go:noescape
func prodFloat64(dst, a, b []byte)

//go:noescape
func minInt32(dst, a, b []byte)

//go:noescape
func minInt64(dst, a, b []byte)

//go:noescape
func minFloat32(dst, a, b []byte)

//go:noescape
func minFloat64(dst, a, b []byte)

//go:noescape
func maxInt32(dst, a, b []byte)

//go:noescape
func maxInt64(dst, a, b []byte)

//go:noescape
func maxFloat32(dst, a, b []byte)

//go:noescape
func maxFloat64(dst, a, b []byte)

// addFloat16Blocks and addBFloat16Blocks add a multiple of halfBlock bytes.
//
//go:noescape
func addFloat16Blocks(dst, a, b []byte)

//go:noescape
func addBFloat16Blocks(dst, a, b []byte)
