//go:build !race

package shm

// streamLines copies src to dst, which is as long and consists of whole cache lines, past the caches.
//
//go:noescape
func streamLines(dst, src []byte)
