//go:build race || !amd64

package shm

// hasNonTemporal says whether copyLines goes past the caches.
const hasNonTemporal = false

// copyLines copies src to dst, which has the same length.
func copyLines(dst, src []byte) { copy(dst, src) }
