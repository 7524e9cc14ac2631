//go:build !race

package shm

// copyLines copies src to dst past the caches. dst has the same length, and consists of whole cache lines.
//
//go:noescape
func copyLines(dst, src []byte)
