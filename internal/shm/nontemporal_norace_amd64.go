//go:build !race

package shm

// hasNonTemporal says whether copyLines goes past the caches.
const hasNonTemporal = true

// copyLines copies src to dst past the caches. dst has the same length, and consists of whole cache lines.
//
//go:noescape
func copyLines(dst, src []byte)
