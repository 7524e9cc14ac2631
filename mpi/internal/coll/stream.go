//go:build race || !amd64

package coll

// stream copies src to dst, which is as long. It is for memory that another core reads next.
func stream(dst, src []byte) { copy(dst, src) }
