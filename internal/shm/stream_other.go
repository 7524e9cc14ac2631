//go:build race || !amd64

package shm

// streamLines copies src to dst, which is as long.
func streamLines(dst, src []byte) { copy(dst, src) }
