//go:build !amd64

package crc32c

import (
	"hash/crc32"
	"math"
)

// minFolded says that fold is not used.
const minFolded = math.MaxInt

// fold returns the remainder of b after start was added to its first bytes.
func fold(start uint32, b []byte) uint32 { return ^crc32.Update(^start, table(), b) }
