package crc32c

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
)

// TestUpdate: results are those of hash/crc32, for all lengths around blocks, any alignment, and any beginning.
func TestUpdate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 16<<10)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	for n := range 4 << 10 {
		b := data[random.IntN(100):][:n]
		if n%3 == 0 {
			b = data[random.IntN(100) : 12<<10+random.IntN(4<<10)]
		}
		sum := random.Uint32()
		if got, want := Update(sum, b), crc32.Update(sum, table(), b); got != want {
			t.Fatalf("%d bytes after %#x: %#x, want %#x", len(b), sum, got, want)
		}
	}
	if got := Update(0, []byte("123456789")); got != 0xe3069283 { // from RFC 3720
		t.Errorf("%#x", got)
	}
}

// TestFold: fold returns what hash/crc32 does, for every number of blocks.
func TestFold(t *testing.T) {
	if minFolded > 1<<20 {
		t.Skip("this processor does not multiply polynomials in vectors")
	}
	random := rand.New(rand.NewPCG(3, 4))
	data := make([]byte, 20*blockBytes)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	for end := blockBytes; end <= len(data); end += blockBytes {
		start := random.Uint32()
		if got, want := fold(start, data[:end]), ^crc32.Update(^start, table(), data[:end]); got != want {
			t.Errorf("%d bytes after %#x: %#x, want %#x", end, start, got, want)
		}
	}
}

// TestEveryBit: every changed bit changes the checksum.
func TestEveryBit(t *testing.T) {
	b := make([]byte, 1<<10+300)
	sum := Update(0, b)
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		if Update(0, b) == sum {
			t.Fatalf("bit %d does not count", i)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func TestAllocations(t *testing.T) {
	b := make([]byte, 4<<10)
	if n := alloctest.Count(100, func() { Update(0, b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20} {
		data := make([]byte, size)
		b.Run(fmt.Sprintf("%d/here", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				Update(0, data)
			}
		})
		b.Run(fmt.Sprintf("%d/hash-crc32", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				crc32.Update(0, table(), data)
			}
		})
	}
}
