//go:build amd64 || arm64

package reduction

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// hasVector reports whether the machine has the instructions of the functions below. On amd64 these
// are AVX2 and conversions of Float16 (F16C), which every processor with AVX2 has; on arm64 those
// of ARMv8-A, which every processor has for which Go compiles.
var hasVector = cpu.X86.HasAVX2 || runtime.GOARCH == "arm64"

// The portable functions of the table, with vector instructions.

//go:noescape
func sumInt8(dst, a, b []byte)

//go:noescape
func sumInt16(dst, a, b []byte)

//go:noescape
func sumInt32(dst, a, b []byte)

//go:noescape
func sumInt64(dst, a, b []byte)

//go:noescape
func sumFloat32(dst, a, b []byte)

//go:noescape
func sumFloat64(dst, a, b []byte)

//go:noescape
func prodInt16(dst, a, b []byte)

//go:noescape
func prodInt32(dst, a, b []byte)

//go:noescape
func prodFloat32(dst, a, b []byte)

//go:noescape
func prodFloat64(dst, a, b []byte)

//go:noescape
func minInt8(dst, a, b []byte)

//go:noescape
func minInt16(dst, a, b []byte)

//go:noescape
func minInt32(dst, a, b []byte)

//go:noescape
func minInt64(dst, a, b []byte)

//go:noescape
func minUint8(dst, a, b []byte)

//go:noescape
func minUint16(dst, a, b []byte)

//go:noescape
func minUint32(dst, a, b []byte)

//go:noescape
func minUint64(dst, a, b []byte)

//go:noescape
func minFloat32(dst, a, b []byte)

//go:noescape
func minFloat64(dst, a, b []byte)

//go:noescape
func maxInt8(dst, a, b []byte)

//go:noescape
func maxInt16(dst, a, b []byte)

//go:noescape
func maxInt32(dst, a, b []byte)

//go:noescape
func maxInt64(dst, a, b []byte)

//go:noescape
func maxUint8(dst, a, b []byte)

//go:noescape
func maxUint16(dst, a, b []byte)

//go:noescape
func maxUint32(dst, a, b []byte)

//go:noescape
func maxUint64(dst, a, b []byte)

//go:noescape
func maxFloat32(dst, a, b []byte)

//go:noescape
func maxFloat64(dst, a, b []byte)

// The functions of blocks compute a multiple of blockBytes.

//go:noescape
func bandBlocks(dst, a, b []byte)

//go:noescape
func borBlocks(dst, a, b []byte)

//go:noescape
func bxorBlocks(dst, a, b []byte)

//go:noescape
func sumFloat16Blocks(dst, a, b []byte)

//go:noescape
func prodFloat16Blocks(dst, a, b []byte)

//go:noescape
func minFloat16Blocks(dst, a, b []byte)

//go:noescape
func maxFloat16Blocks(dst, a, b []byte)

//go:noescape
func sumBFloat16Blocks(dst, a, b []byte)

//go:noescape
func prodBFloat16Blocks(dst, a, b []byte)

//go:noescape
func minBFloat16Blocks(dst, a, b []byte)

//go:noescape
func maxBFloat16Blocks(dst, a, b []byte)
