package fabrictest

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// fill fills b with bytes that depend on seed, and returns it.
func fill(b []byte, seed uint64) []byte {
	x := seed*0x9e3779b97f4a7c15 + 1
	for rest := b; len(rest) > 0; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		if len(rest) < 8 {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], x)
			copy(rest, word[:])
			break
		}
		binary.LittleEndian.PutUint64(rest, x)
		rest = rest[8:]
	}
	return b
}

// check compares b with size bytes that fill makes of seed.
func check(b []byte, size int, seed uint64) error {
	if len(b) != size {
		return fmt.Errorf("%d bytes instead of %d", len(b), size)
	}
	want := fill(make([]byte, size), seed)
	if bytes.Equal(b, want) {
		return nil
	}
	i := 0
	for b[i] == want[i] {
		i++
	}
	return fmt.Errorf("byte %d of %d is %#x instead of %#x", i, size, b[i], want[i])
}
