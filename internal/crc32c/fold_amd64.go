package crc32c

import (
	"hash/crc32"
	"math"
	"math/bits"

	"golang.org/x/sys/cpu"
)

// foldedBytes is the length from which folding is faster than hash/crc32.
const foldedBytes = 4 * blockBytes

// minFolded is the length from which fold is used.
var minFolded = chooseMinimum()

func chooseMinimum() int {
	if cpu.X86.HasAVX512F && cpu.X86.HasSSE42 && cpu.X86.HasAVX512VPCLMULQDQ {
		return foldedBytes
	}
	return math.MaxInt
}

// factors are x^(d+63) and x^(d-1) modulo the polynomial of the checksum, where d is the number of bits of a block: the factors
// that move the lower and the upper half of 16 bytes by a block. Coefficients are in reverse order, as in the checksum. The
// product of two numbers in reverse order is one position too low, hence 63 and -1 instead of 64 and 0.
//
//lint:ignore U1000 fold reads them
var factors = [2]uint64{power(8*blockBytes + 63), power(8*blockBytes - 1)}

// power returns x^n modulo the polynomial, in reverse order, in the upper half of the result.
func power(n int) uint64 {
	p := bits.Reverse32(1)
	for range n {
		carry := p & 1
		p >>= 1
		if carry != 0 {
			p ^= crc32.Castagnoli
		}
	}
	return uint64(p) << 32
}

// fold returns the remainder of b, whose length is a multiple of blockBytes and not 0, after start was added to its first bytes.
//
//go:noescape
func fold(start uint32, b []byte) uint32
